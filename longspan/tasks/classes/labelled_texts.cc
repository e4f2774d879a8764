#include "longspan/tasks/classes/labelled_texts.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "longspan/base/error.h"
#include "longspan/io/file.h"
#include "longspan/io/text_lines.h"
#include "longspan/tasks/classes/split_files.h"

namespace longspan {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = failed == std::errc{} && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

class Reader {
 public:
  Reader(std::string_view who, std::size_t bytes) : who_(who), bytes_(bytes) {}

  void file(const fs::path& path, std::optional<Split> split) {
    std::map<std::size_t, std::int64_t> folds;  // of the texts that have one
    std::optional<bool> label_first;
    read_lines(who_, path, [&](const TextLine& line) {
      if (line.text.starts_with('{')) {
        add_json(line, split, folds);
      } else {
        add_columns(line, split, label_first);
      }
    });
    split_folds(folds);
  }

  // A directory per class, and in it a file per text.
  void directory(const fs::path& path, std::optional<Split> split) {
    for (const fs::path& folder : entries(path)) {
      if (!fs::is_directory(folder)) continue;
      const std::string label = folder.filename().string();
      // What is known of no class, as the unlabelled texts of IMDB.
      if (label.starts_with("unsup")) continue;
      for (const fs::path& file : entries(folder)) {
        if (!fs::is_regular_file(file)) continue;
        texts_.push_back({read_file(who_, file, kMostData).substr(0, bytes_), label, split});
      }
    }
  }

  std::vector<fs::path> entries(const fs::path& path) const {
    std::vector<fs::path> all;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(path, failed)) all.push_back(entry.path());
    require(!failed, "[{}] {} could not be read: {}", who_, path.string(), failed.message());
    std::ranges::sort(all);
    return all;
  }

  std::vector<LabelledText> texts() && { return std::move(texts_); }

 private:
  void add(const TextLine& line, std::string_view text, std::string label,
           std::optional<Split> split) {
    line.require(!text.empty(), "the text is empty");
    line.require(!label.empty() && label.size() <= 256, "a label of {} bytes; need 1 to 256",
                 label.size());
    texts_.push_back({std::string(text.substr(0, bytes_)), std::move(label), split});
  }

  void add_json(const TextLine& line, std::optional<Split> split,
                std::map<std::size_t, std::int64_t>& folds) {
    const json object = json::parse(line.text, nullptr, false);
    line.require(object.is_object(), "no JSON object; need {{\"text\": …, \"label\": …}}");
    const auto text = object.find("text");
    const auto label = object.find("label");
    line.require(text != object.end() && text->is_string(), "no \"text\"; need one, a string");
    line.require(label != object.end() && (label->is_string() || label->is_number_integer()),
                 "no \"label\"; need one, a whole number or a string");
    if (const auto said = object.find("split"); said != object.end()) {
      const std::string word = said->is_string() ? said->get<std::string>() : said->dump();
      split = split_of(word);
      line.require(split.has_value(), "split '{}'; need train, valid or test", printable(word));
    } else if (const auto fold = object.find("fold"); fold != object.end()) {
      line.require(fold->is_number_integer() && *fold >= 0 && *fold < 1000,
                   "fold {}; need a whole number from 0 to 999", printable(fold->dump()));
      folds[texts_.size()] = fold->get<std::int64_t>();
    }
    add(line, text->get_ref<const std::string&>(),
        label->is_string() ? label->get<std::string>() : label->dump(), split);
  }

  void add_columns(const TextLine& line, std::optional<Split> split,
                   std::optional<bool>& label_first) {
    const std::size_t tab = line.text.find('\t');
    line.require(tab != std::string_view::npos,
                 "neither JSON nor a tab; need a label, a tab and a text");
    const std::string_view first = line.text.substr(0, tab);
    const std::string_view second = line.text.substr(tab + 1);
    if (!label_first) {
      const auto is_title = [](std::string_view word) {
        return word == "label" || word == "Target";
      };
      label_first = !is_title(second);
      if (is_title(first) || is_title(second)) return;
    }
    add(line, *label_first ? second : first, std::string(*label_first ? first : second), split);
  }

  void split_folds(const std::map<std::size_t, std::int64_t>& folds) {
    std::set<std::int64_t> all;
    for (const auto& [i, fold] : folds) all.insert(fold);
    for (const auto& [i, fold] : folds) {
      const auto rank = static_cast<std::size_t>(std::distance(all.begin(), all.find(fold)));
      const std::size_t tenth = 10 * rank / all.size();
      texts_[i].split = tenth >= 8   ? Split::kTest
                        : tenth == 7 ? Split::kValidation
                                     : Split::kTraining;
    }
  }

  std::string_view who_;
  std::size_t bytes_;
  std::vector<LabelledText> texts_;
};

}  // namespace

std::optional<Split> split_of(std::string_view word) {
  if (word.starts_with("train")) return Split::kTraining;
  if (word.starts_with("val") || word.starts_with("dev")) return Split::kValidation;
  return word.starts_with("test") ? std::optional(Split::kTest) : std::nullopt;
}

std::vector<LabelledText> read_labelled_texts(std::string_view who, const fs::path& data,
                                              std::size_t bytes) {
  Reader reader(who, bytes);
  std::error_code ignored;
  const bool of_files = !fs::is_directory(data, ignored);
  const auto has_folders = [&](const fs::path& path) {
    return std::ranges::any_of(reader.entries(path),
                               [&](const fs::path& p) { return fs::is_directory(p, ignored); });
  };
  if (of_files || !has_folders(data)) {
    const SplitFiles files = split_files(who, data);
    reader.file(files.training, files.one ? std::nullopt : std::optional(Split::kTraining));
    if (files.validation) reader.file(*files.validation, Split::kValidation);
    if (files.test) reader.file(*files.test, Split::kTest);
  } else if (fs::is_directory(data / "train", ignored)) {
    for (const fs::path& part : reader.entries(data)) {
      const auto split = split_of(part.filename().string());
      if (split && fs::is_directory(part, ignored)) reader.directory(part, split);
    }
  } else {
    reader.directory(data, std::nullopt);
  }
  std::vector<LabelledText> texts = std::move(reader).texts();
  require(!texts.empty(), "[{}] {} has no texts; need a directory per class with a file per text",
          who, data.string());
  return texts;
}

std::vector<std::string> class_names(const std::vector<LabelledText>& texts) {
  const auto before = [](const std::string& a, const std::string& b) {
    const auto x = number_of(a);
    const auto y = number_of(b);
    if (x && y && *x != *y) return *x < *y;
    return x.has_value() != y.has_value() ? x.has_value() : a < b;
  };
  std::set<std::string, decltype(before)> names(before);
  for (const LabelledText& t : texts) names.insert(t.label);
  return {names.begin(), names.end()};
}

}  // namespace longspan
