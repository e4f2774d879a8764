#include "longspan/io/json_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/io/atomic_file.h"
#include "longspan/io/file.h"

namespace longspan {

using nlohmann::json;

namespace {

// "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error while parsing
// value - unexpected '}'; expected ..." → "syntax error while parsing value - unexpected '}'"
std::string short_reason(std::string_view text) {
  if (text.starts_with("[json.exception"))
    text = text.substr(std::min(text.find(']') + 2, text.size()));
  if (const std::size_t colon = text.find(": ");
      text.starts_with("parse error") && colon != std::string_view::npos) {
    text = text.substr(colon + 2);
  }
  return printable(text.substr(0, std::min(text.find("; last read"), text.find("; expected"))));
}

// `byte` counts from one, as the parser's does.
std::string position(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte > 0 ? byte - 1 : 0);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t start = before.rfind('\n') + 1;  // npos + 1 = 0
  return fmt::format("line {}, column {}", line, before.size() - start + 1);
}

}  // namespace

json parse_json(std::string_view where, std::string_view text) {
  // The parser takes a NUL for the end, and what follows would be hidden.
  require(text.find('\0') == std::string_view::npos, "{}: byte {} is a NUL; need valid JSON", where,
          text.find('\0'));
  std::vector<std::set<std::string>> keys;
  const auto see = [&](int depth, json::parse_event_t event, json& value) {
    require(depth <= kDeepestJson, "{}: is nested more than {} deep", where, kDeepestJson);
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      require(keys.back().insert(key).second, "{}: the key '{}' appears twice", where,
              printable(key));
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), see);
  } catch (const json::parse_error& error) {
    throw Error(fmt::format("{}: {}: {}; need valid JSON", where, position(text, error.byte),
                            short_reason(error.what())));
  } catch (const json::exception& error) {  // a number that no double can hold
    throw Error(fmt::format("{}: {}; need valid JSON", where, short_reason(error.what())));
  }
}

json read_json(const std::filesystem::path& path) {
  return parse_json("[json] " + path.string(), read_file("json", path, kMostJson));
}

void write_json(const std::filesystem::path& path, const json& value) {
  std::string text;
  try {
    text = value.dump(2) + "\n";
  } catch (const json::exception& error) {  // a string that is not UTF-8
    throw Error(fmt::format("[json] {}: {}", path.string(), short_reason(error.what())));
  }
  AtomicFile file("json", path);
  file.write(text);
  file.commit();
}

}  // namespace longspan
