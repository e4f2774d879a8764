#include "longspan/attention/feature/linear_attention.h"
#include "tests/vectors/golden_attention.h"
#include "tests/vectors/golden_feature.h"

namespace longspan::golden {

void run_linear(const Case& golden, Comparison& comparison) {
  comparison.begin("linear");
  const LinearAttention linear({.epsilon = golden.config().value("eps", 1e-6F)});
  run_attention(golden, linear, comparison);
  comparison.finish();
}

void run_efficient(const Case& golden, Comparison& comparison) {
  comparison.begin("linear:features=softmax");
  run_attention(golden, LinearAttention({.features = "softmax"}), comparison);
  comparison.finish();
}

}  // namespace longspan::golden
