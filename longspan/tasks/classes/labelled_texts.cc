#include "longspan/tasks/classes/labelled_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "longspan/base/error.h"
#include "longspan/io/file.h"
#include "longspan/io/json_file.h"
#include "longspan/io/text_lines.h"
#include "longspan/tasks/classes/split_files.h"
#include "longspan/tasks/utf8.h"

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

bool parse_json_text(std::string_view line, std::vector<std::uint8_t>& tokens) {
  const json object = json::parse(line, nullptr, false);
  const auto text = object.is_object() ? object.find("text") : object.end();
  if (text == object.end() || !text->is_string()) return false;
  return parse_bytes_as_tokens(text->get_ref<const std::string&>(), tokens);
}

std::string shown(const json& value) {
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (next_character(text, at) == kInvalidCharacter) return false;
  }
  return true;
}

// Which columns of lines with tabs are what; the last of them has whatever comes behind it.
struct TextColumns {
  std::size_t count = 2;
  std::size_t label = 0;
  std::size_t text = 1;
};

std::vector<std::string_view> fields_of(std::string_view line, std::size_t most) {
  std::vector<std::string_view> fields;
  while (fields.size() + 1 < most && line.find('\t') != std::string_view::npos) {
    fields.push_back(line.substr(0, line.find('\t')));
    line.remove_prefix(fields.back().size() + 1);
  }
  fields.push_back(line);
  return fields;
}

// Of a first line that names the label and the text among any columns, or the label of two.
std::optional<TextColumns> titled_columns(std::string_view line) {
  const std::vector<std::string_view> titles = fields_of(line, std::string_view::npos);
  const auto place = [&](std::initializer_list<std::string_view> names) {
    return static_cast<std::size_t>(
        std::ranges::find_if(titles,
                             [&](std::string_view title) {
                               return std::ranges::find(names, lower_case(title)) != names.end();
                             }) -
        titles.begin());
  };
  const std::size_t label = place({"label", "target", "class"});
  if (label == titles.size()) return std::nullopt;
  if (titles.size() == 2) return TextColumns{2, label, 1 - label};
  const std::size_t text = place({"text", "sentence", "source"});
  if (text == titles.size()) return std::nullopt;
  return TextColumns{titles.size(), label, text};
}

class LabelledReader {
 public:
  LabelledReader(std::string_view who, std::size_t bytes, const std::vector<std::string>& known)
      : who_(who), bytes_(bytes), closed_(!known.empty()) {
    found_.files = std::make_shared<ExampleFiles>(who);
    for (const std::string& label : known) number_of_label(label);
  }

  void file(const fs::path& path, std::optional<Split> split) {
    const std::size_t first = found_.texts.size();
    const std::uint32_t as_json = found_.files->add(path, &parse_json_text);
    const std::uint32_t as_it_is = found_.files->add(path, &parse_bytes_as_tokens);
    columns_.reset();
    folded_.reset();
    titled_ = false;
    read_lines(who_, path, [&](const TextLine& line) {
      if (line.text.starts_with('{')) {
        add_json(line, as_json, split);
      } else {
        add_columns(line, as_it_is, split);
      }
    });
    split_folds(first);
    // A text that nobody wrote twice is no class.
    constexpr std::size_t kSurelyClasses = 64;
    const bool guessed = columns_ && !titled_ && !closed_;
    require(!guessed || (!all_differ() && (found_.labels.size() <= kSurelyClasses ||
                                           2 * found_.labels.size() <= found_.texts.size())),
            "[{}] {}: {} labels of {} texts; need the label first in a line, or a first line "
            "'text<tab>label'",
            who_, path.string(), found_.labels.size(), found_.texts.size());
  }

  // A directory per class, and in it a file per text.
  void directory(const fs::path& path, std::optional<Split> split) {
    for (const fs::path& folder : entries(path)) {
      if (!is_directory(folder)) continue;
      const std::string label = folder.filename().string();
      // What is known of no class, as the unlabelled texts of IMDB.
      if (label.starts_with("unsup")) continue;
      require(is_utf8(label), "[{}] {}: the class is not UTF-8; need UTF-8 text", who_,
              printable(folder.string()));
      folders_.emplace(label, folder);
      for (const fs::path& file : entries(folder)) add_file(file, label, split);
    }
  }

  // A class without a text would be none of the model's.
  void check_folders() const {
    if (closed_ || found_.texts.empty()) return;
    for (const auto& [label, folder] : folders_) {
      require(numbers_.contains(label), "[{}] {} has no example; need one, or no such directory",
              who_, folder.string());
    }
  }

  // Labels that are all different are no classes.
  void check_labels(const fs::path& data) const {
    require(closed_ || !all_differ(),
            "[{}] {}: {} labels of {} texts; need several texts of a label", who_, data.string(),
            found_.labels.size(), found_.texts.size());
  }

  // Without what is hidden, as .git and .DS_Store.
  std::vector<fs::path> entries(const fs::path& path) const {
    std::vector<fs::path> all;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(path, failed)) {
      if (!entry.path().filename().string().starts_with('.')) all.push_back(entry.path());
    }
    require(!failed, "[{}] {} could not be read: {}", who_, path.string(), failed.message());
    std::ranges::sort(all);
    return all;
  }

  // Throws Error for what leads nowhere.
  bool is_directory(const fs::path& path) const {
    std::error_code failed;
    const fs::file_status status = fs::status(path, failed);
    require(fs::status_known(status) && fs::exists(status), "[{}] {} could not be read: {}", who_,
            path.string(), failed.message());
    return fs::is_directory(status);
  }

  LabelledTexts found() && { return std::move(found_); }

 private:
  bool all_differ() const {
    constexpr std::size_t kFew = 2;
    return found_.texts.size() > kFew && found_.labels.size() == found_.texts.size();
  }

  void add_file(const fs::path& file, const std::string& label, std::optional<Split> split) {
    if (is_directory(file)) return;
    const std::uint64_t size = File(who_, file).size();
    require(size > 0, "[{}] {} is empty; need a text", who_, file.string());
    require(!closed_ || numbers_.contains(label), "[{}] {}: the class is none that is known: {}",
            who_, file.parent_path().string(), known_text());
    const std::uint32_t length = first_of(size);
    const std::uint32_t number = found_.files->add(file, &parse_bytes_as_tokens);
    found_.texts.push_back({.place = {0, length, number},
                            .length = length,
                            .label = number_of_label(label),
                            .split = split});
  }

  std::uint32_t first_of(std::uint64_t bytes) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, bytes_));
  }

  std::int32_t number_of_label(std::string_view label) {
    const auto [at, is_new] =
        numbers_.emplace(label, static_cast<std::int32_t>(found_.labels.size()));
    if (is_new) found_.labels.push_back(at->first);
    return at->second;
  }

  void check(const TextLine& line, std::size_t text, std::string_view label) {
    line.require(text > 0, "the text is empty");
    line.require(!label.empty() && label.size() <= 256, "a label of {} bytes; need 1 to 256",
                 label.size());
    line.require(is_utf8(label), "a label that is not UTF-8; need UTF-8 text");
    if (closed_ && !numbers_.contains(label)) {
      line.fail(
          fmt::format("label '{}' is none that is known: {}", printable(label), known_text()));
    }
    constexpr std::size_t kMostLabels = 65536;
    line.require(found_.labels.size() < kMostLabels || numbers_.contains(label),
                 "'{}' is one class more than {}; need fewer", printable(label), kMostLabels);
  }

  // "cat, dog, …"
  std::string known_text() const {
    constexpr std::size_t kShown = 8;
    const std::size_t shown = std::min(kShown, found_.labels.size());
    const auto first = std::span(found_.labels).first(shown);
    return fmt::format("{}{}", printable(fmt::format("{}", fmt::join(first, ", "))),
                       shown < found_.labels.size() ? ", …" : "");
  }

  static std::int16_t fold_of(const TextLine& line, const json& fold) {
    if (!fold.is_number_integer() || fold < 0 || fold >= 1000) {
      line.fail(fmt::format("fold {}; need a whole number from 0 to 999", shown(fold)));
    }
    return fold.get<std::int16_t>();
  }

  void add_json(const TextLine& line, std::uint32_t file, std::optional<Split> split) {
    const json object = json::parse(line.text, nullptr, false);
    refuse_repeated_keys(line.place(), line.text);
    line.require(object.is_object(), "not a JSON object; need {{\"text\": …, \"label\": …}}");
    const auto text = object.find("text");
    const auto label = object.find("label");
    line.require(text != object.end(), "no \"text\"; need one, a string");
    // What is said of a wrong line is not made for every line.
    if (!text->is_string()) {
      line.fail(fmt::format("\"text\" is {}; need a string", shown(*text)));
    }
    line.require(label != object.end(), "no \"label\"; need one, a whole number or a string");
    if (!label->is_string() && !label->is_number_integer()) {
      line.fail(fmt::format("\"label\" is {}; need a whole number or a string", shown(*label)));
    }
    std::int16_t fold_of_it = -1;
    if (const auto said = object.find("split"); said != object.end()) {
      const std::string word = said->is_string() ? said->get<std::string>() : said->dump();
      split = split_of(word);
      line.require(split.has_value(), "split '{}'; need train, valid or test", printable(word));
    } else {
      const auto fold = object.find("fold");
      const bool folded = fold != object.end();
      line.require(folded_.value_or(folded) == folded, "{}; need it in all lines or in none",
                   folded ? "a \"fold\", which lines before have not"
                          : "no \"fold\", which lines before have");
      folded_ = folded;
      if (folded) fold_of_it = fold_of(line, *fold);
    }
    const std::string named = label->is_string() ? label->get<std::string>() : label->dump();
    const std::size_t size = text->get_ref<const std::string&>().size();
    check(line, size, named);
    found_.texts.push_back(
        {.place = {line.offset, static_cast<std::uint32_t>(line.text.size()), file},
         .length = first_of(size),
         .label = number_of_label(named),
         .fold = fold_of_it,
         .split = split});
  }

  void add_columns(const TextLine& line, std::uint32_t file, std::optional<Split> split) {
    line.require(line.number > 1 || !line.text.starts_with('['),
                 "a list of JSON; need an object in every line, {{\"text\": …, \"label\": …}}");
    line.require(line.text.find('\t') != std::string_view::npos,
                 "neither JSON nor a tab; need a label, a tab and a text");
    if (!columns_) {
      columns_ = titled_columns(line.text);
      titled_ = columns_.has_value();
      if (titled_) return;
      columns_.emplace();
    }
    const std::vector<std::string_view> fields = fields_of(line.text, columns_->count);
    line.require(fields.size() == columns_->count, "{} columns; need {}, as the titles say",
                 fields.size(), columns_->count);
    const std::string_view text = fields[columns_->text];
    const std::string_view label = fields[columns_->label];
    check(line, text.size(), label);
    const std::uint64_t offset =
        line.offset + static_cast<std::uint64_t>(text.data() - line.text.data());
    found_.texts.push_back({.place = {offset, first_of(text.size()), file},
                            .length = first_of(text.size()),
                            .label = number_of_label(label),
                            .split = split});
  }

  // Of the texts from `first` on that say theirs. One fold is no division.
  void split_folds(std::size_t first) {
    std::set<std::int16_t> all;
    const std::span<LabelledText> texts = std::span(found_.texts).subspan(first);
    for (const LabelledText& t : texts) {
      if (t.fold >= 0) all.insert(t.fold);
    }
    if (all.size() < 2) return;
    const std::size_t test = std::max<std::size_t>(1, all.size() / 5);
    const std::size_t validation = all.size() == 2 ? 0 : std::max<std::size_t>(1, all.size() / 10);
    for (LabelledText& t : texts) {
      if (t.fold < 0) continue;
      const auto behind = static_cast<std::size_t>(std::distance(all.find(t.fold), all.end())) - 1;
      t.split = behind < test                ? Split::kTest
                : behind < test + validation ? Split::kValidation
                                             : Split::kTraining;
    }
  }

  std::string_view who_;
  std::size_t bytes_;
  bool closed_;  // no other labels than those that were known before
  std::optional<TextColumns> columns_;
  bool titled_ = false;         // whether a line of the file says which column is the label
  std::optional<bool> folded_;  // whether the lines of the file say their fold
  LabelledTexts found_;
  std::map<std::string, std::int32_t, std::less<>> numbers_;  // of labels
  std::map<std::string, fs::path> folders_;                   // by their labels
};

}  // namespace

LabelledTexts read_labelled_texts(std::string_view who, const fs::path& data, std::size_t bytes,
                                  const std::vector<std::string>& known) {
  LabelledReader reader(who, bytes, known);
  std::error_code ignored;
  const bool of_files = !fs::is_directory(data, ignored);
  const auto has_folders = [&](const fs::path& path) {
    return std::ranges::any_of(reader.entries(path),
                               [&](const fs::path& p) { return reader.is_directory(p); });
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
  reader.check_folders();
  reader.check_labels(data);
  LabelledTexts found = std::move(reader).found();
  require(!found.texts.empty(),
          "[{}] {} has no texts; need a directory per class with a file per text", who,
          data.string());
  return found;
}

std::vector<std::string> in_order_of_classes(std::vector<std::string> labels) {
  std::ranges::sort(labels, [](const std::string& a, const std::string& b) {
    const auto x = number_of(a);
    const auto y = number_of(b);
    if (x && y && *x != *y) return *x < *y;
    return x.has_value() != y.has_value() ? x.has_value() : a < b;
  });
  return labels;
}

}  // namespace longspan
