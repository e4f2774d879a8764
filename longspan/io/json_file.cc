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

// Finds what the parser would accept: a key that appears twice, and values nested too deep. In a
// pass of its own, because a parser that is given a callback looks at all members of an object
// whenever one of them ends.
class Checker final : public json::json_sax_t {
 public:
  explicit Checker(std::string_view where) : where_(where) {}

  bool start_object(std::size_t /*size*/) override { return open(); }
  bool start_array(std::size_t /*size*/) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    require(keys_.back().insert(name).second, "{}: the key '{}' appears twice", where_,
            printable(name));
    return true;
  }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(json::number_integer_t /*value*/) override { return true; }
  bool number_unsigned(json::number_unsigned_t /*value*/) override { return true; }
  bool number_float(json::number_float_t /*value*/, const std::string& /*text*/) override {
    return true;
  }
  bool string(std::string& /*value*/) override { return true; }
  bool binary(json::binary_t& /*value*/) override { return true; }
  // The parser says it better.
  bool parse_error(std::size_t /*byte*/, const std::string& /*token*/,
                   const json::exception& /*error*/) override {
    return false;
  }

 private:
  bool open() {
    require(keys_.size() < kDeepestJson, "{}: is nested more than {} deep", where_, kDeepestJson);
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  std::string_view where_;
  std::vector<std::set<std::string>> keys_;  // of what is open; an array has none
};

}  // namespace

void refuse_repeated_keys(std::string_view where, std::string_view text) {
  Checker checker(where);
  json::sax_parse(text, &checker);
}

json parse_json(std::string_view where, std::string_view text) {
  // The parser takes a NUL for the end, and what follows would be hidden.
  require(text.find('\0') == std::string_view::npos, "{}: byte {} is a NUL; need valid JSON", where,
          text.find('\0'));
  Checker checker(where);
  json::sax_parse(text, &checker);
  try {
    return json::parse(text);
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
