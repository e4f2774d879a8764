#include "longspan/tasks/classes/split_files.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/io/text_lines.h"

namespace longspan {

namespace {

namespace fs = std::filesystem;

struct WordOfSplit {
  std::string_view word;
  Split split;
};
constexpr std::array<WordOfSplit, 13> kSplitWords = {{{"train", Split::kTraining},
                                                      {"training", Split::kTraining},
                                                      {"trainset", Split::kTraining},
                                                      {"trn", Split::kTraining},
                                                      {"validation", Split::kValidation},
                                                      {"valid", Split::kValidation},
                                                      {"val", Split::kValidation},
                                                      {"development", Split::kValidation},
                                                      {"dev", Split::kValidation},
                                                      {"eval", Split::kValidation},
                                                      {"test", Split::kTest},
                                                      {"testing", Split::kTest},
                                                      {"testset", Split::kTest}}};

// A name in lower case, around the last word of it that names a split.
struct SplitName {
  Split split;
  std::string before;
  std::string behind;
};

std::optional<SplitName> split_name(std::string_view text) {
  const std::string name = lower_case(text);
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  std::optional<SplitName> found;
  for (std::size_t begin = 0; begin < name.size();) {
    std::size_t end = begin;
    while (end < name.size() && is_letter(name[end])) ++end;
    const std::string_view letters(name.data() + begin, end - begin);
    const auto* const word = std::ranges::find(kSplitWords, letters, &WordOfSplit::word);
    if (word != kSplitWords.end()) found = {word->split, name.substr(0, begin), name.substr(end)};
    begin = end + 1;
  }
  return found;
}

std::vector<fs::path> files_in(std::string_view who, const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(directory, failed)) {
    std::error_code ignored;
    if (entry.is_regular_file(ignored)) files.push_back(entry.path());
  }
  require(!failed, "[{}] {} could not be read: {}", who, directory.string(), failed.message());
  std::ranges::sort(files);
  return files;
}

// The one file of the split whose name is `like` another, where that is given.
std::optional<fs::path> only_one(std::string_view who, const fs::path& directory, Split split,
                                 const std::optional<SplitName>& like) {
  std::optional<fs::path> found;
  for (const fs::path& file : files_in(who, directory)) {
    const std::optional<SplitName> name = split_name(file.filename().string());
    if (!name || name->split != split) continue;
    if (like && (name->before != like->before || name->behind != like->behind)) continue;
    require(!found, "[{}] {} has both {} and {}; need one of them in --data", who,
            directory.string(), found ? found->filename().string() : "", file.filename().string());
    found = file;
  }
  return found;
}

}  // namespace

std::optional<Split> split_of(std::string_view text) {
  const std::optional<SplitName> name = split_name(text);
  return name ? std::optional(name->split) : std::nullopt;
}

SplitFiles split_files(std::string_view who, const fs::path& data) {
  std::error_code ignored;
  const bool is_directory = fs::is_directory(data, ignored);
  const std::optional<SplitName> name =
      is_directory ? std::nullopt : split_name(data.filename().string());
  if (!is_directory && (!name || name->split != Split::kTraining)) {
    return {.training = data, .one = true};
  }
  fs::path directory = is_directory ? data : data.parent_path();
  if (directory.empty()) directory = ".";
  std::optional<fs::path> training = data;
  if (is_directory) training = only_one(who, directory, Split::kTraining, name);
  require(training.has_value(),
          "[{}] {} has no file with the word 'train' in its name; need one, or a file", who,
          data.string());
  return {*training, only_one(who, directory, Split::kValidation, name),
          only_one(who, directory, Split::kTest, name)};
}

}  // namespace longspan
