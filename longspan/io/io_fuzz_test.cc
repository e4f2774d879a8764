// The parsers meet thousands of damaged files: each is refused with an Error or read, and nothing
// else happens. Run under the address and undefined-behaviour sanitizers, this is a memory check.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/io/checkpoint.h"
#include "longspan/io/json_file.h"
#include "longspan/io/npy.h"
#include "longspan/io/safetensors.h"
#include "longspan/testing/mutator.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace io_fuzz_test {

using testing::Mutator;
using testing::read_bytes;
using testing::TemporaryDirectory;
using testing::write_bytes;

constexpr int kMutants = 3000;

struct Outcome {
  int refused = 0;
  int read = 0;
};

template <class Read>
Outcome fuzz(const std::filesystem::path& path, std::uint64_t seed, Read read) {
  const std::string good = read_bytes(path);
  Mutator mutator(seed);
  Outcome outcome;
  for (int i = 0; i < kMutants; ++i) {
    write_bytes(path, mutator.mutate(good));
    try {
      read();
      ++outcome.read;
    } catch (const Error& error) {
      ++outcome.refused;
      const std::string_view text = error.what();
      EXPECT_TRUE(text.starts_with("[") && text.find('\n') == std::string_view::npos) << text;
      EXPECT_LT(text.size(), 500U) << text;
    }
  }
  EXPECT_GT(outcome.refused, kMutants / 2);
  return outcome;
}

std::vector<float> ramp(std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i);
  return values;
}

TEST(Fuzz, Safetensors) {
  const TemporaryDirectory directory;
  const auto path = directory / "a.safetensors";
  const auto w = ramp(12);
  const auto v = ramp(5);
  write_safetensors(path,
                    std::vector<TensorSource>{{"w", {3, 4}, w}, {"v", {5}, v}, {"e", {0}, {}}},
                    {{"step", "3"}});
  const Outcome outcome = fuzz(path, 1, [&] {
    const SafetensorsFile file(path);
    for (const TensorInfo& tensor : file.tensors()) {
      if (tensor.dtype == Dtype::kF32) file.doubles(tensor.name);
    }
  });
  EXPECT_GT(outcome.read, 0);
}

TEST(Fuzz, Npy) {
  const TemporaryDirectory directory;
  const auto path = directory / "a.npy";
  write_npy<float>(path, std::vector<std::size_t>{3, 4}, ramp(12));
  const Outcome outcome = fuzz(path, 2, [&] { read_npy<float>(path); });
  EXPECT_GT(outcome.read, 0);
}

TEST(Fuzz, Json) {
  const TemporaryDirectory directory;
  const auto path = directory / "a.json";
  write_json(path, {{"width", 128}, {"name", "gpt"}, {"list", {1, 2.5, nullptr, true}}});
  const Outcome outcome = fuzz(path, 3, [&] { read_json(path).dump(); });
  EXPECT_GT(outcome.read, 0);
}

// Any damage at all is found here, so a mutant is read only where the edits undid one another.
TEST(Fuzz, Checkpoint) {
  const TemporaryDirectory directory;
  const auto w = ramp(12);
  save_checkpoint(directory.path(), {{"width", 4}},
                  {.weights = {{"w", {3, 4}, w}}, .optimizer = {w}, .metadata = {{"step", "1"}}});
  const auto path = directory / "model.safetensors";
  const std::string good = read_bytes(path);
  fuzz(path, 4, [&] {
    const Checkpoint checkpoint(directory.path());
    EXPECT_EQ(read_bytes(path), good);
  });
}

TEST(Fuzz, CheckpointConfig) {
  const TemporaryDirectory directory;
  const auto w = ramp(12);
  const nlohmann::json config = {{"width", 4}, {"name", "gpt"}};
  save_checkpoint(directory.path(), config,
                  {.weights = {{"w", {12}, w}}, .optimizer = {}, .metadata = {}});
  fuzz(directory / "config.json", 5,
       [&] { EXPECT_EQ(Checkpoint(directory.path()).config(), config); });
}

}  // namespace io_fuzz_test
}  // namespace longspan
