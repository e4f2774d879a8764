#include "longspan/tasks/classes/split_files.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "longspan/base/error.h"

namespace longspan {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kValidation = {"validation", "valid", "val", "dev",
                                                         "eval"};

bool has_word(const fs::path& path, std::string_view word) {
  return path.filename().string().find(word) != std::string::npos;
}

std::optional<fs::path> only_one(std::string_view who, const fs::path& directory,
                                 const std::vector<fs::path>& files,
                                 std::span<const std::string_view> words) {
  std::optional<fs::path> found;
  for (const fs::path& file : files) {
    if (std::ranges::none_of(words, [&](std::string_view w) { return has_word(file, w); }))
      continue;
    require(!found, "[{}] {} has both {} and {}; need one of them in --data", who,
            directory.string(), found ? found->filename().string() : "", file.filename().string());
    found = file;
  }
  return found;
}

std::optional<fs::path> sibling(const fs::path& training, std::string_view word) {
  std::string name = training.filename().string();
  name.replace(name.rfind("train"), 5, word);
  std::error_code ignored;
  const fs::path path = training.parent_path() / name;
  return fs::is_regular_file(path, ignored) ? std::optional(path) : std::nullopt;
}

SplitFiles of_directory(std::string_view who, const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(directory, failed)) {
    if (entry.is_regular_file(failed)) files.push_back(entry.path());
  }
  require(!failed, "[{}] {} could not be read: {}", who, directory.string(), failed.message());
  std::ranges::sort(files);
  constexpr std::array<std::string_view, 1> kTraining = {"train"};
  constexpr std::array<std::string_view, 1> kTest = {"test"};
  const auto training = only_one(who, directory, files, kTraining);
  require(training.has_value(), "[{}] {} has no file with 'train' in its name; need one, or a file",
          who, directory.string());
  return {*training, only_one(who, directory, files, kValidation),
          only_one(who, directory, files, kTest)};
}

}  // namespace

SplitFiles split_files(std::string_view who, const fs::path& data) {
  std::error_code ignored;
  if (fs::is_directory(data, ignored)) return of_directory(who, data);
  if (!has_word(data, "train")) return {.training = data, .one = true};
  SplitFiles files{.training = data};
  for (const std::string_view word : kValidation) {
    if (!files.validation) files.validation = sibling(data, word);
  }
  files.test = sibling(data, "test");
  return files;
}

}  // namespace longspan
