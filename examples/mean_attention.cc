#include "examples/mean_attention.h"

#include <algorithm>

#include "longspan/base/cost.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

namespace {

// What forward does for all heads, from the shape alone.
Work forward_work(const AttentionShape& s) {
  const Mask mask{.causal = s.causal, .key_lengths = s.key_lengths};
  std::uint64_t rows = 0;
  for (std::size_t b = 0; b < s.batch; ++b) rows += visible_end(mask, b, s.m - 1, s.m, s.n) + s.m;
  return flops(Kind::kAdd, rows * s.heads * s.e);
}

Work backward_work(const AttentionShape& s) {
  return flops(Kind::kAdd, std::uint64_t{2} * s.batch * s.heads * s.m * s.e);
}

}  // namespace

AttentionCost MeanAttention::cost(const AttentionShape& s) const {
  AttentionCost cost;
  cost.forward = forward_work(s);
  cost.backward = backward_work(s);
  cost.forward_scratch = cost.backward_scratch = Arena::bytes_for(s.batch * s.heads * s.e);
  return cost;
}

void MeanAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const AttentionShape s = shape_of(in);
  const auto sums = call.arena.take(s.batch * s.heads * s.e);
  parallel_for(s.batch * s.heads, [&](std::size_t plane, std::size_t) {
    const std::size_t b = plane / s.heads;
    const std::size_t h = plane % s.heads;
    const auto sum = sums.subspan(plane * s.e, s.e);
    std::ranges::fill(sum, 0.0F);
    std::size_t seen = 0;
    for (std::size_t i = 0; i < s.m; ++i) {
      const std::size_t end = visible_end(in.mask, b, i, s.m, s.n);
      for (; seen < end; ++seen) {
        const auto v = in.v.head(b, h).row(seen);
        for (std::size_t c = 0; c < s.e; ++c) sum[c] += v[c];
      }
      const float share = end == 0 ? 0.0F : 1.0F / static_cast<float>(end);
      const auto to = call.y.head(b, h).row(i);
      for (std::size_t c = 0; c < s.e; ++c) to[c] = share * sum[c];
    }
  });
  report(forward_work(s));
}

void MeanAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const AttentionGradients& grad = call.grad;
  const AttentionShape s = shape_of(in);
  const auto sums = call.arena.take(s.batch * s.heads * s.e);
  parallel_for(s.batch * s.heads, [&](std::size_t plane, std::size_t) {
    const std::size_t b = plane / s.heads;
    const std::size_t h = plane % s.heads;
    const auto sum = sums.subspan(plane * s.e, s.e);
    std::ranges::fill(sum, 0.0F);
    std::size_t i = s.m;  // the queries from i on are in the sum
    for (std::size_t j = s.n; j-- > 0;) {
      for (; i > 0 && visible_end(in.mask, b, i - 1, s.m, s.n) > j; --i) {
        const auto end = static_cast<float>(visible_end(in.mask, b, i - 1, s.m, s.n));
        const auto from = call.dy.head(b, h).row(i - 1);
        for (std::size_t c = 0; c < s.e; ++c) sum[c] += from[c] / end;
      }
      std::ranges::copy(sum, grad.v.head(b, h).row(j).begin());
      std::ranges::fill(grad.k.head(b, h).row(j), 0.0F);
    }
    fill(grad.q.head(b, h), 0.0F);
  });
  report(backward_work(s));
}

}  // namespace longspan
