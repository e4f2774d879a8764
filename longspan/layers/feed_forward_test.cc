#include "longspan/layers/feed_forward.h"

#include <gtest/gtest.h>

#include "longspan/testing/check_branch.h"

namespace longspan {
namespace feed_forward_test {

using testing::Complex;
using testing::Weights;

struct Case {
  std::string name;
  Activation activation;
  bool gated;
  bool bias;
  std::size_t batch;
  std::size_t length;
  std::size_t d;
  std::size_t f;
};

class FeedForwardCases : public ::testing::TestWithParam<Case> {};

TEST_P(FeedForwardCases, KeepsItsPromises) {
  const Case& c = GetParam();
  Parameters parameters;
  const FeedForward layer(
      parameters, "ffn",
      {.d_model = c.d, .d_ff = c.f, .activation = c.activation, .gated = c.gated, .bias = c.bias});
  parameters.allocate();
  testing::BranchCase check;
  check.branch = &layer;
  check.parameters = &parameters;
  check.pass.batch = c.batch;
  check.pass.length = c.length;
  check.d_model = c.d;
  check.reference = [&](const Weights& w) {
    return testing::feed_forward(w, "ffn", name_of(c.activation), c.gated, w.get<Complex>("x"));
  };
  testing::expect_branch(check);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, FeedForwardCases,
    ::testing::Values(Case{"one", Activation::kGelu, false, true, 1, 1, 1, 1},
                      Case{"relu", Activation::kRelu, false, true, 2, 5, 7, 13},
                      Case{"gelu", Activation::kGelu, false, true, 1, 17, 8, 33},
                      Case{"gelu_tanh", Activation::kGeluTanh, false, false, 3, 3, 5, 17},
                      Case{"tanh", Activation::kTanh, false, true, 2, 2, 9, 9},
                      Case{"quick_gelu", Activation::kQuickGelu, false, true, 2, 3, 6, 9},
                      Case{"relu2", Activation::kRelu2, true, true, 2, 5, 7, 9},
                      Case{"swiglu", Activation::kSilu, true, false, 2, 7, 6, 11},
                      Case{"gated_gelu_with_bias", Activation::kGelu, true, true, 1, 5, 9, 17}),
    [](const auto& instance) { return instance.param.name; });

}  // namespace feed_forward_test
}  // namespace longspan
