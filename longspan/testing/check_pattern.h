// A mechanism that is exact over a fixed pattern of keys, against exact attention with that pattern
// as its mask: values, gradients, and the number of pairs that are computed.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "longspan/testing/attention_problem.h"

namespace longspan::testing {

// sees(b, h, i, j) tells whether query i sees key j, padding and causality included.
template <class Sees>
void check_pattern(const Attention& attention, const AttentionCase& c, const Sees& sees) {
  SCOPED_TRACE(c.name());
  AttentionProblem p(c);
  p.run(attention);
  const auto& r = p;
  FullReference<double> reference = p.reference();
  std::vector<std::uint8_t> visible;
  std::uint64_t pairs = 0;
  for (std::size_t row = 0; row < c.batch * c.heads * c.m; ++row) {
    const std::size_t plane = row / c.m;
    for (std::size_t j = 0; j < c.n; ++j) {
      visible.push_back(sees(plane / c.heads, plane % c.heads, row % c.m, j) ? 1 : 0);
      pairs += visible.back();
    }
  }
  reference.mask.visible = {visible.data(), c.heads * c.m * c.n, c.m * c.n, c.n};
  EXPECT_EQ(p.forward_work.maccs, pairs * (c.d + c.e));
  const auto want = reference.backward(AttentionProblem::dense(r.heads(p.dy, c.heads, c.m, c.e)));
  const double tolerance = 6 * std::numeric_limits<float>::epsilon() *
                           std::sqrt(16.0 + static_cast<double>(2 * c.n + c.d + c.e));
  auto expect = [&](const std::vector<float>& got, std::size_t heads, std::size_t n,
                    std::size_t width, const std::vector<double>& wanted, const char* what) {
    EXPECT_LE(relative_error(AttentionProblem::dense(r.heads(got, heads, n, width)), wanted),
              tolerance)
        << what;
  };
  expect(p.y, c.heads, c.m, c.e, reference.forward(), "y");
  expect(p.dq, c.heads, c.m, c.d, want.q, "dq");
  expect(p.dk, c.kv_heads, c.n, c.d, want.k, "dk");
  expect(p.dv, c.kv_heads, c.n, c.e, want.v, "dv");
}

}  // namespace longspan::testing
