// Every fuzz target over its corpus, and over mutants of it for a while: what `make fuzz` does with
// any compiler, without looking where the inputs lead.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include "longspan/base/random.h"
#include "longspan/base/resident.h"
#include "longspan/testing/mutator.h"
#include "longspan/testing/temporary_directory.h"
#include "tests/fuzz/fuzzing.h"

#define LONGSPAN_FUZZ_TARGET(name) \
  namespace longspan::fuzz {       \
  int fuzz_##name(Bytes input);    \
  }
#include <fuzz_targets.inc>
#undef LONGSPAN_FUZZ_TARGET

namespace longspan::fuzz {
namespace fuzz_test {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 2.0;        // of mutants, each target
constexpr unsigned kLongestInput = 20;  // seconds, under sanitizers on a busy machine
constexpr std::size_t kMostEditBytes = 24;
constexpr std::size_t kMostMemory = std::size_t{1} << 30U;

struct FuzzTarget {
  const char* name;
  int (*run)(Bytes);
};
constexpr FuzzTarget kTargets[] = {
#define LONGSPAN_FUZZ_TARGET(name) {#name, &fuzz_##name},
#include <fuzz_targets.inc>
#undef LONGSPAN_FUZZ_TARGET
};

class Fuzz : public ::testing::TestWithParam<FuzzTarget> {
 protected:
  // An input that ends the process, or takes for ever, is found in the file of that name.
  void run(const std::string& input) {
    testing::write_bytes(last_, input);
    ::alarm(kLongestInput);
    const std::vector<std::uint8_t> bytes(input.begin(), input.end());
    EXPECT_NO_THROW(GetParam().run(bytes)) << "the input is in " << last_;
    ::alarm(0);
    if (HasFailure()) std::filesystem::copy_file(last_, last_.string() + ".failed", kReplace);
  }

  std::vector<std::string> corpus() const {
    const auto folder =
        std::filesystem::path(LONGSPAN_SOURCE_DIR) / "tests/fuzz/corpus" / GetParam().name;
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry);
    std::ranges::sort(paths);
    std::vector<std::string> inputs;
    for (const auto& path : paths) inputs.push_back(testing::read_bytes(path));
    return inputs;
  }

 private:
  static constexpr auto kReplace = std::filesystem::copy_options::overwrite_existing;
  std::filesystem::path last_ = std::filesystem::path(LONGSPAN_BINARY_DIR) / "tests" /
                                fmt::format("fuzz_{}", GetParam().name);
};

TEST_P(Fuzz, Corpus) {
  const std::vector<std::string> inputs = corpus();
  EXPECT_FALSE(inputs.empty());
  for (const std::string& input : inputs) run(input);
  run("");
}

// Half of them are mutants of the corpus, half edits of a sound file's tree.
TEST_P(Fuzz, Mutants) {
  const std::vector<std::string> inputs = corpus();
  const RandomKey key = derive(1, GetParam().name);
  testing::Mutator mutator(key);
  const std::size_t before = peak_resident_bytes();
  const auto end = Clock::now() + std::chrono::duration<double>(kSeconds);
  for (std::uint64_t i = 0; Clock::now() < end && !HasFailure(); ++i) {
    if (i % 2 == 0) {
      run(mutator.mutate(inputs[(i / 2) % inputs.size()]));
      continue;
    }
    std::string edits(1, static_cast<char>(kEdits));
    for (std::size_t left = 1 + mutator.below(kMostEditBytes); left > 0; --left) {
      edits += static_cast<char>(mutator.below(256));
    }
    run(edits);
  }
  EXPECT_LT(peak_resident_bytes() - before, kMostMemory);
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, ::testing::ValuesIn(kTargets),
                         [](const auto& about) { return std::string(about.param.name); });

}  // namespace fuzz_test
}  // namespace longspan::fuzz
