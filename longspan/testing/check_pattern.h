// A mechanism that is exact over a fixed pattern of keys, against exact attention with that pattern
// as its mask: values, gradients, and the number of pairs that are computed.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
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

// A cache of keys and values: the queries at some position alone give what all n of them give, n at
// least 90.
inline void check_decoding(const Attention& attention, std::size_t n) {
  constexpr std::size_t kWidth = 16;
  constexpr std::size_t kHeads = 2;
  AttentionProblem whole({.heads = kHeads,
                          .kv_heads = kHeads,
                          .m = n,
                          .n = n,
                          .d = kWidth,
                          .e = kWidth,
                          .causal = true});
  whole.run(attention, false);
  for (const std::size_t t : std::initializer_list<std::size_t>{0, 1, 40, 88, n - 3}) {
    AttentionInputs in = whole.inputs();
    in.q.data += t * kWidth;
    in.q.n = t == 40 ? 2 : 1;
    in.k = in.k.first(t + in.q.n);
    in.v = in.v.first(t + in.q.n);
    std::vector<float> y(kHeads * in.q.n * kWidth);
    Arena arena(attention.cost(shape_of(in)).forward_scratch);
    attention.forward({in, Heads(y.data(), 1, kHeads, in.q.n, kWidth), {}, arena});
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t plane = i / (kWidth * in.q.n);
      const std::size_t query = plane * n + t + i / kWidth % in.q.n;
      EXPECT_NEAR(y[i], whole.y[query * kWidth + i % kWidth], 2e-6) << t;
    }
  }
}

}  // namespace longspan::testing
