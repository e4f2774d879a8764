// golden_check passes on the golden vectors of the project, and fails where it must.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longspan/io/json_file.h"
#include "longspan/io/safetensors.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace {

using testing::TemporaryDirectory;

const std::filesystem::path kGolden = std::filesystem::path(LONGSPAN_SOURCE_DIR) / "tests/golden";

struct Outcome {
  int status = -1;
  std::string output;

  bool says(const std::string& text) const { return output.find(text) != std::string::npos; }
};

// Folders may have spaces in their names.
Outcome golden_check(const std::filesystem::path& directory, const std::string& options = "") {
  const std::string command = "'" LONGSPAN_BINARY_DIR "/golden_check' " +
                              (directory.empty() ? "" : "'" + directory.string() + "'") + " " +
                              options + " 2>&1";
  Outcome run;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return run;
  char block[4096];
  for (std::size_t n = 0; (n = std::fread(block, 1, sizeof(block), pipe)) > 0;) {
    run.output.append(block, n);
  }
  const int raw = ::pclose(pipe);
  run.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : -1;
  return run;
}

void copy_case(const std::string& name, const std::filesystem::path& to) {
  for (const char* end : {".json", ".safetensors", ".weights.safetensors"}) {
    if (std::filesystem::exists(kGolden / (name + end))) {
      std::filesystem::copy_file(kGolden / (name + end), to / (name + end));
    }
  }
}

// Adds `by` to the first element of a tensor of 4- or 8-byte numbers, in the file.
template <class T>
void bump(const std::filesystem::path& path, const std::string& tensor, T by) {
  std::string bytes = testing::read_bytes(path);
  const SafetensorsFile file(path);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  char* const at = bytes.data() + sizeof(header) + header + file.at(tensor).begin;
  T value;
  std::memcpy(&value, at, sizeof(T));
  value += by;
  std::memcpy(at, &value, sizeof(T));
  testing::write_bytes(path, bytes);
}

TEST(Golden, EveryCaseOfTheProjectPasses) {
  const Outcome run = golden_check(kGolden);
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_TRUE(run.says("\n114 passed, 0 failed\n")) << run.output;
}

TEST(Golden, OnlyChoosesCases) {
  const Outcome run = golden_check(kGolden, "--only '^full_c'");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_TRUE(run.says("full_causal_1") && run.says("full_cross_1")) << run.output;
  EXPECT_TRUE(run.says("\n2 passed, 0 failed\n")) << run.output;
}

TEST(Golden, AnotherOutputFails) {
  const TemporaryDirectory directory;
  copy_case("full_causal_1", directory.path());
  bump(directory / "full_causal_1.safetensors", "out64", 1e-3);
  const Outcome run = golden_check(directory.path());
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_TRUE(run.says("FAIL  (out64")) << run.output;
  EXPECT_TRUE(run.says("\n0 passed, 1 failed\n")) << run.output;
}

TEST(Golden, AnotherGradientFails) {
  const TemporaryDirectory directory;
  copy_case("model_gpt2_1", directory.path());
  const std::string tensor = "grad.transformer.h.1.attn.c_attn.weight";
  bump(directory / "model_gpt2_1.safetensors", tensor, 1e-4F);
  const Outcome run = golden_check(directory.path());
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_TRUE(run.says("FAIL  (" + tensor)) << run.output;
}

TEST(Golden, AnotherWeightFails) {
  const TemporaryDirectory directory;
  copy_case("model_bert_classification_1", directory.path());
  bump(directory / "model_bert_classification_1.weights.safetensors",
       "bert.encoder.layer.0.attention.self.value.weight", 0.01F);
  const Outcome run = golden_check(directory.path());
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_TRUE(run.says("FAIL")) << run.output;
}

TEST(Golden, NotANumberFails) {
  const TemporaryDirectory directory;
  copy_case("mha_layer_1", directory.path());
  bump(directory / "mha_layer_1.safetensors", "x", std::numeric_limits<float>::quiet_NaN());
  const Outcome run = golden_check(directory.path());
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_TRUE(run.says("nan of")) << run.output;
}

TEST(Golden, AnUnknownMechanismIsSkippedWithItsName) {
  const TemporaryDirectory directory;
  copy_case("full_causal_1", directory.path());
  nlohmann::json sidecar = read_json(directory / "full_causal_1.json");
  sidecar["mechanism"] = "telepathic attention";
  write_json(directory / "full_causal_1.json", sidecar);
  const Outcome run = golden_check(directory.path());
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_TRUE(run.says("unsupported: mechanism 'telepathic attention' is not in this build"))
      << run.output;
  EXPECT_TRUE(run.says("\n0 passed, 0 failed, 1 skipped\n")) << run.output;
}

TEST(Golden, ABrokenCaseFailsAndTheOthersStillRun) {
  const TemporaryDirectory directory;
  copy_case("full_causal_1", directory.path());
  copy_case("full_padding_1", directory.path());
  testing::write_bytes(directory / "full_causal_1.safetensors", "short");
  const Outcome run = golden_check(directory.path());
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_TRUE(run.says("FAIL: [safetensors]")) << run.output;
  EXPECT_TRUE(run.says("\n1 passed, 1 failed\n")) << run.output;
}

TEST(Golden, NothingToCheckIsAnError) {
  const TemporaryDirectory directory;
  EXPECT_EQ(golden_check(directory.path()).status, 2);
  EXPECT_EQ(golden_check(kGolden, "--only nonsense").status, 2);
  EXPECT_EQ(golden_check(kGolden, "--only '['").status, 2);
  EXPECT_EQ(golden_check("").status, 2);
  EXPECT_EQ(golden_check("/nowhere/at/all").status, 2);
}

}  // namespace
}  // namespace longspan
