#include "longspan/tasks/pairs/paired_texts.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/io/file.h"
#include "longspan/io/json_file.h"
#include "longspan/io/text_lines.h"
#include "longspan/tasks/classes/split_files.h"

namespace longspan {

namespace {

// The field that begins at `at`, and in `at` where it ends: at a tab, or behind the line.
std::string field_at(std::string_view line, std::size_t& at) {
  const std::size_t begin = at;
  if (begin < line.size() && line[begin] == '"') {
    std::string field;
    for (std::size_t i = begin + 1; i < line.size(); ++i) {
      const bool ends = i + 1 == line.size() || line[i + 1] == '\t';
      if (line[i] == '"' && ends) {
        at = i + 1;
        return field;
      }
      if (line[i] == '"' && line[++i] != '"') break;
      field += line[i];
    }
  }
  // A quote that ends nowhere is one of the text.
  at = std::min(line.find('\t', begin), line.size());
  return std::string(line.substr(begin, at - begin));
}

std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields;
  for (std::size_t at = 0;; ++at) {
    fields.push_back(field_at(line, at));
    if (at >= line.size()) return fields;
  }
}

class PairReader {
 public:
  PairReader(std::size_t bytes, const std::function<void(const PairedText&)>& each)
      : bytes_(bytes), each_(each) {}

  void read(const TextLine& line) {
    if (line.text.starts_with('{')) {
      read_json(line);
    } else {
      read_columns(line);
    }
  }

 private:
  void give(const TextLine& line, std::string_view first, std::string_view second,
            std::string_view label, std::optional<Split> split) {
    line.require(!first.empty() && !second.empty(), "a text is empty; need two");
    each_({std::string(first.substr(0, bytes_)), std::string(second.substr(0, bytes_)),
           label_of_pair(line, label), split});
  }

  static std::int32_t label_of_pair(const TextLine& line, std::string_view text) {
    double value = -1.0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool known = failed == std::errc{} && end == text.data() + text.size() && value >= 0.0 &&
                       value < kMostPairClasses && value == static_cast<std::int32_t>(value);
    line.require(known, "label '{}'; need a whole number from 0 to {}", printable(text),
                 kMostPairClasses - 1);
    return static_cast<std::int32_t>(value);
  }

  void read_columns(const TextLine& line) {
    const std::vector<std::string> fields = fields_of(line.text);
    line.require(fields.size() == 5 || fields.size() == 3,
                 "{} columns; need a label, two ids and two texts, or a label and two texts, with "
                 "tabs between them",
                 fields.size());
    if (line.number == 1 && lower_case(fields.front()) == "label") return;
    give(line, fields[fields.size() - 2], fields.back(), fields.front(), {});
  }

  void read_json(const TextLine& line) {
    const nlohmann::json object = nlohmann::json::parse(line.text, nullptr, false);
    refuse_repeated_keys(line.place(), line.text);
    line.require(object.is_object(),
                 "not a JSON object; need {{\"text1\": …, \"text2\": …, \"label\": …}}");
    const auto text = [&](const char* key) -> const std::string& {
      const auto found = object.find(key);
      line.require(found != object.end() && found->is_string(), "no \"{}\"; need one, a string",
                   key);
      return found->get_ref<const std::string&>();
    };
    const auto label = object.find("label");
    line.require(label != object.end() && (label->is_number() || label->is_string()),
                 "no \"label\"; need one, a whole number");
    std::optional<Split> split;
    if (const auto said = object.find("split"); said != object.end()) {
      const std::string word = said->is_string() ? said->get<std::string>() : said->dump();
      split = split_of(word);
      line.require(split.has_value(), "split '{}'; need train, valid or test", printable(word));
    }
    give(line, text("text1"), text("text2"),
         label->is_string() ? label->get<std::string>() : label->dump(), split);
  }

  std::size_t bytes_;
  const std::function<void(const PairedText&)>& each_;
};

}  // namespace

void read_paired_texts(std::string_view who, const std::filesystem::path& path, std::size_t bytes,
                       const std::function<void(const PairedText&)>& each) {
  PairReader reader(bytes, each);
  read_lines(who, path, [&](const TextLine& line) { reader.read(line); });
}

}  // namespace longspan
