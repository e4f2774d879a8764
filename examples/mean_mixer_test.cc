#include "examples/mean_mixer.h"

#include <gtest/gtest.h>

#include "longspan/base/error.h"
#include "longspan/testing/check_branch.h"

namespace longspan {
namespace mean_mixer_test {

// The definition for any scalar; complex steps differentiate it.
testing::Tensor<testing::Complex> mean(const Pass& pass,
                                       const testing::Tensor<testing::Complex>& x) {
  testing::Tensor<testing::Complex> y(x.rows, x.cols);
  for (std::size_t i = 0; i < x.rows; ++i) {
    const std::size_t b = i / pass.length;
    const auto n = pass.lengths.empty() ? pass.length : static_cast<std::size_t>(pass.lengths[b]);
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t c = 0; c < x.cols; ++c) {
        y(i, c) += x(b * pass.length + j, c) / static_cast<double>(n);
      }
    }
  }
  return y;
}

// Values, both gradients, the arena's high-water marks and dry = meter, in one call.
TEST(MeanMixer, KeepsItsPromises) {
  const MeanMixer mixer(/*causal=*/false);
  Parameters none;
  none.allocate();
  const std::vector<std::int32_t> lengths = {5, 2};
  testing::BranchCase check;
  check.branch = &mixer;
  check.parameters = &none;
  check.pass.batch = 2;
  check.pass.length = 5;
  check.d_model = 7;
  const auto reference = [&](const testing::Weights& w) {
    return mean(check.pass, w.get<testing::Complex>("x"));
  };
  check.reference = reference;
  testing::expect_branch(check);
  check.pass.lengths = lengths;
  testing::expect_branch(check);
}

TEST(MeanMixer, LooksAhead) { EXPECT_THROW(MeanMixer(/*causal=*/true), Error); }

}  // namespace mean_mixer_test
}  // namespace longspan
