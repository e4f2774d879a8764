// Predicted memory of a training step against what the operating system sees: each configuration in
// a process of its own, which has held nothing before.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "longspan/base/memory.h"
#include "longspan/predict/verification.h"

namespace longspan {
namespace {

struct MemoryCase {
  std::string name;
  ModelConfig config;
  RunShape shape;
};
void PrintTo(const MemoryCase& c, std::ostream* out) { *out << c.name; }

// A forked child takes the step, because the parent's memory must not count.
MemoryCheck in_fresh_process(const MemoryCase& c) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const MemoryCheck check = check_memory(c.config, c.shape);
    const ssize_t written = write(ends[1], &check, sizeof(check));
    _exit(written == sizeof(check) ? 0 : 1);
  }
  close(ends[1]);
  MemoryCheck check;
  EXPECT_EQ(read(ends[0], &check, sizeof(check)), static_cast<ssize_t>(sizeof(check)));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return check;
}

ModelConfig model(Choice<Family> family, std::size_t layers, std::size_t d_model,
                  const std::string& attention, std::size_t length) {
  ModelConfig c;
  c.family = family;
  c.layers = layers;
  c.decoder_layers = family == Family::kEncoderDecoder ? layers : 0;
  c.d_model = d_model;
  c.heads = 4;
  c.attention = attention;
  c.max_length = length;
  return c;
}

std::vector<MemoryCase> memory_cases() {
  std::vector<MemoryCase> cases = {
      {"flash_long", model("encoder", 2, 128, "flash", 2048), {5, 2048, 0}},
      {"full_matrix", model("encoder", 1, 64, "full", 1536), {3, 1536, 0}},
      {"mostly_weights", model("decoder", 3, 768, "flash", 32), {1, 32, 0}},
      {"large_vocabulary", model("decoder", 1, 128, "flash", 256), {2, 256, 0}},
      {"reversible", model("decoder", 2, 256, "flash", 1024), {8, 1024, 0}},
      {"encoder_decoder", model("encoder-decoder", 2, 192, "flash", 1024), {2, 1024, 768}},
      {"gated_dropout", model("decoder", 2, 192, "flash", 1024), {3, 1024, 0}},
  };
  cases[3].config.vocab = 32000;
  cases[4].config.wiring = Wiring::kReversible;
  cases[6].config.gated = true;
  cases[6].config.dropout = 0.1F;
  cases[6].config.wiring = Wiring::kPostNorm;
  return cases;
}

class ResidentMemory : public ::testing::TestWithParam<MemoryCase> {};

TEST_P(ResidentMemory, GrowsAsPredicted) {
  const MemoryCheck check = in_fresh_process(GetParam());
  EXPECT_EQ(check.arena.predicted, check.arena.measured);
  EXPECT_GT(check.predicted(), std::size_t{100} << 20U) << "too small to tell";
  EXPECT_LT(std::abs(check.error().value_or(1.0)), 0.05)
      << "predicted " << format_bytes(check.predicted()) << ", the process grew by "
      << format_bytes(check.resident);
}

INSTANTIATE_TEST_SUITE_P(Configurations, ResidentMemory, ::testing::ValuesIn(memory_cases()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace longspan
