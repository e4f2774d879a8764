#include "longspan/compare/capture.h"

#include <gtest/gtest.h>

#include "longspan/base/error.h"
#include "longspan/compare/approximation.h"

namespace longspan {
namespace capture_test {

Model small(std::size_t kv_heads) {
  ModelConfig c;
  c.layers = 3;
  c.d_model = 24;
  c.heads = 4;
  c.kv_heads = kv_heads;
  c.max_length = 40;
  Model model(c);
  model.allocate(1);
  return model;
}

TEST(Capture, GivesWhatTheLayerSees) {
  Model model = small(4);
  std::vector<std::int32_t> tokens(37);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(7 * i % 31);
  const CapturedAttention first = capture_attention(model, tokens, 0, 2);
  const CapturedAttention again = capture_attention(model, tokens, 0, 2);
  const CapturedAttention later = capture_attention(model, tokens, 2, 2);
  EXPECT_EQ(first.shape.length, 37);
  EXPECT_EQ(first.shape.d_head, 6);
  EXPECT_TRUE(first.shape.causal);
  EXPECT_EQ(first.tensors.q.size(), 37 * 2 * 6);
  EXPECT_EQ(first.tensors.v, again.tensors.v);
  EXPECT_NE(first.tensors.v, later.tensors.v);
  EXPECT_NE(first.tensors.q, first.tensors.k);
}

TEST(Capture, SharedKeyHeadsAreRepeated) {
  Model model = small(2);
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  CapturedAttention captured = capture_attention(model, tokens, 1, 4);
  const auto head = [&](std::size_t h) {
    const float* row = captured.tensors.k.data() + h * 6;
    return std::vector<float>(row, row + 6);
  };
  EXPECT_EQ(head(0), head(1));
  EXPECT_NE(head(1), head(2));
  EXPECT_EQ(head(2), head(3));
  captured.shape.attention = "full";
  EXPECT_LT(*approximation_error(captured.shape, captured.tensors).output, 1e-5);
}

// Tokens that are mixed otherwise, or read by a pooled sequence, leave nothing to compare.
TEST(Capture, NeedsALayerThatAttendsToAllTokens) {
  ModelConfig c;
  c.family = Family::kEncoder;
  c.wiring = Wiring::kPostNorm;
  c.layers = 3;
  c.d_model = 24;
  c.max_length = 40;
  ModelConfig mixed = c;
  mixed.attention = "fnet";
  ModelConfig staged = c;
  staged.stages = "1|1";
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5, 6, 7};
  for (const ModelConfig& config : {mixed, staged}) {
    Model model(config);
    model.allocate(1);
    try {
      capture_attention(model, tokens, 1, 2);
      ADD_FAILURE() << config.attention;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("layer 1 does not attend from all 7 tokens"),
                std::string::npos)
          << e.what();
    }
  }
}

}  // namespace capture_test
}  // namespace longspan
