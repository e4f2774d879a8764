#include "tests/fuzz/fuzzing.h"

#include <algorithm>

#include "longspan/testing/temporary_directory.h"

namespace longspan::fuzz {

void demand(bool holds, std::string_view what) {
  if (!holds) throw Violated(std::string(what));
}

void check_sentence(std::string_view text) {
  demand(text.starts_with('[') && text.find("] ") != text.npos,
         fmt::format("no sentence: {}", text.substr(0, 200)));
}

std::uint64_t Steering::take(std::size_t bytes) {
  std::uint64_t value = 0;
  const Bytes taken = left_.first(std::min(bytes, left_.size()));
  for (std::size_t i = 0; i < taken.size(); ++i) value |= std::uint64_t{taken[i]} << (8 * i);
  left_ = left_.subspan(taken.size());
  return value;
}

std::size_t Steering::below(std::size_t bound) {
  return static_cast<std::size_t>(take(bound <= 256 ? 1 : 2) % bound);
}

std::vector<std::string> sound_files(std::string_view target) {
  const std::filesystem::path folder =
      std::filesystem::path(LONGSPAN_SOURCE_DIR) / "tests/fuzz/corpus" / target;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("sound")) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<std::string> files;
  for (const auto& path : paths) files.push_back(testing::read_bytes(path));
  demand(!files.empty(), fmt::format("no sound file in {}", folder.string()));
  return files;
}

const std::filesystem::path& scratch() {
  static const testing::TemporaryDirectory directory;
  return directory.path();
}

}  // namespace longspan::fuzz
