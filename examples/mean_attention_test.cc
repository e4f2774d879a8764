#include "examples/mean_attention.h"

#include <gtest/gtest.h>

#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"

namespace longspan {
namespace mean_attention_test {

const testing::AttentionMaker kMean("mean", [](const AttentionSite& /*site*/) {
  return std::make_unique<MeanAttention>();
});

// The common checks: meter = cost, arena = plan, bits for any number of threads, causality,
// padding, batch. A mechanism in the registry passes them without being asked.
TEST(MeanAttention, PassesTheCommonChecks) { testing::check_attention(kMean); }

// Its own definition, with any scalar: values, and gradients by complex steps.
template <class T>
std::vector<T> mean(const testing::AttentionTensors<T>& t) {
  const AttentionShape& s = t.shape;
  std::vector<T> y(s.batch * s.heads * s.m * s.e);
  for (std::size_t row = 0; row < s.batch * s.heads * s.m; ++row) {
    const std::size_t plane = row / s.m;
    const std::size_t end = visible_end(t.mask, plane / s.heads, row % s.m, s.m, s.n);
    for (std::size_t j = 0; j < end; ++j) {
      for (std::size_t c = 0; c < s.e; ++c) {
        y[row * s.e + c] += t.v[(plane * s.n + j) * s.e + c] / static_cast<double>(end);
      }
    }
  }
  return y;
}

TEST(MeanAttention, IsItsDefinition) {
  const auto reference = [](const auto& t) { return mean(t); };
  testing::check_reference(kMean, {.m = 7, .n = 7, .d = 3, .e = 5, .causal = true}, reference);
  testing::check_reference(kMean,
                           {.batch = 2,
                            .heads = 2,
                            .kv_heads = 2,
                            .m = 5,
                            .n = 9,
                            .d = 2,
                            .e = 3,
                            .causal = true,
                            .key_lengths = {9, 4}},
                           reference);
}

}  // namespace mean_attention_test
}  // namespace longspan
