#include "longspan/attention/lowrank/linformer_scores.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/cost.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/softmax.h"

namespace longspan {

namespace {

// Of a worker: q·Kᵀ, another [m, n], and [m, k] twice.
std::size_t scratch_floats(const AttentionShape& s, std::size_t k) {
  return (2 * s.m * (s.n + k) + 15) / 16 * 16;
}

std::uint64_t pairs(const AttentionShape& s) { return s.heads * s.m * real_keys(s); }

Work forward_work(const AttentionShape& s, std::size_t k) {
  const std::uint64_t weights = std::uint64_t{s.batch} * s.heads * s.m * k;
  Work work = maccs(pairs(s) * (s.d + s.e + 2 * k)) + flops(Kind::kSoftmax, 5 * weights);
  if (s.dropout) work[Kind::kDropout] = weights;
  return work;
}

Work backward_work(const AttentionShape& s, std::size_t k) {
  const std::uint64_t weights = std::uint64_t{s.batch} * s.heads * s.m * k;
  Work work = maccs(pairs(s) * (3 * s.d + 2 * s.e + 5 * k)) + flops(Kind::kSoftmax, 4 * weights);
  if (s.dropout) work[Kind::kDropout] = 2 * weights;
  return work;
}

Work update_work(const AttentionShape& s, std::size_t k) {
  return flops(Kind::kAdd, 2 * s.kv_heads * k * real_keys(s));
}

// One head of one sequence.
struct Head {
  const LinformerTables& tables;
  const AttentionInputs& in;
  std::size_t b;
  std::size_t h;
  float* memory;

  std::size_t kv() const { return h / (in.q.heads / in.k.heads); }
  std::size_t keys() const { return in.mask.keys(b, in.k.n); }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(in.q.d)); }
  ConstMatrix q() const { return in.q.head(b, h); }
  ConstMatrix k() const { return in.k.head(b, kv()).slice_rows(0, keys()); }
  ConstMatrix v() const { return in.v.head(b, kv()).slice_rows(0, keys()); }
  ConstMatrix e() const { return tables.of(tables.e, kv(), keys()); }
  ConstMatrix f() const { return tables.of(tables.f, kv(), keys()); }
  Matrix scores() const { return {memory, in.q.n, keys()}; }
  Matrix mixed() const { return {memory + in.q.n * in.k.n, in.q.n, keys()}; }
  Matrix weights(std::size_t which) const {
    return {memory + 2 * in.q.n * in.k.n + which * in.q.n * tables.k, in.q.n, tables.k};
  }

  void score() const { gemm_serial(q(), k(), scores(), {.transpose_b = true, .alpha = scale()}); }
  // x⊙mask, or x itself without dropout.
  ConstMatrix drop(ConstMatrix x, Matrix to) const {
    if (!in.dropout.active()) return x;
    const auto plane = static_cast<std::uint32_t>(b * in.q.heads + h);
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t j = 0; j < x.cols; ++j) {
        to.row_data(i)[j] =
            x.row_data(i)[j] *
            in.dropout.factor(plane, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j));
      }
    }
    return to;
  }
};

void forward_head(const Head& x, Matrix y, float* saved) {
  const Matrix p = saved == nullptr ? x.weights(0) : Matrix{saved, y.rows, x.tables.k};
  x.score();
  gemm_serial(x.scores(), x.e(), p, {.transpose_b = true});
  softmax_serial(p);
  gemm_serial(x.drop(p, x.weights(1)), x.f(), x.mixed());
  gemm_serial(x.mixed(), x.v(), y);
}

// Adds to dk, dv, dE and dF.
void backward_head(const Head& x, ConstMatrix dy, ConstMatrix p, const AttentionGradients& grad,
                   Matrix de, Matrix df) {
  const GemmOptions add_transposed{.transpose_a = true, .add = true};
  const Matrix dk = grad.k.head(x.b, x.kv()).slice_rows(0, x.keys());
  const Matrix dv = grad.v.head(x.b, x.kv()).slice_rows(0, x.keys());
  const Matrix dp = x.weights(0);
  x.score();
  const ConstMatrix dropped = x.drop(p, x.weights(1));
  gemm_serial(dropped, x.f(), x.mixed());
  gemm_serial(x.mixed(), dy, dv, add_transposed);
  gemm_serial(dy, x.v(), x.mixed(), {.transpose_b = true});
  gemm_serial(dropped, x.mixed(), df, add_transposed);
  gemm_serial(x.mixed(), x.f(), dp, {.transpose_b = true});
  x.drop(dp, dp);
  softmax_backward_serial(p, dp, dp);
  gemm_serial(dp, x.scores(), de, add_transposed);
  gemm_serial(dp, x.e(), x.mixed());
  gemm_serial(x.mixed(), x.k(), grad.q.head(x.b, x.h), {.alpha = x.scale()});
  gemm_serial(x.mixed(), x.q(), dk, {.transpose_a = true, .add = true, .alpha = x.scale()});
}

void clear(Matrix x) {
  for (std::size_t i = 0; i < x.rows; ++i) std::ranges::fill(x.row(i), 0.0F);
}

}  // namespace

bool scores_come_first(const AttentionShape& s, std::size_t k) {
  return s.m * s.n * (s.d + s.e + 2 * k) < k * (s.d + s.e) * (s.n + s.m);
}

AttentionCost scores_first_cost(const AttentionShape& s, std::size_t k) {
  AttentionCost cost;
  cost.forward = forward_work(s, k);
  cost.backward = backward_work(s, k);
  cost.update = update_work(s, k);
  cost.saved = s.batch * s.heads * s.m * k;
  cost.signals = s.batch * s.kv_heads * 2 * k * s.n;
  cost.forward_scratch = Arena::bytes_for(workers() * scratch_floats(s, k));
  cost.backward_scratch = cost.forward_scratch;
  return cost;
}

void scores_first_forward(const LinformerTables& tables, const AttentionInputs& in, Heads y,
                          std::span<float> saved, Arena& arena) {
  const AttentionShape s = shape_of(in);
  const std::size_t floats = scratch_floats(s, tables.k);
  const auto memory = arena.take(workers() * floats);
  parallel_for(s.batch * s.heads, [&](std::size_t plane, std::size_t worker) {
    const Head head{tables, in, plane / s.heads, plane % s.heads, memory.data() + worker * floats};
    forward_head(head, y.head(head.b, head.h),
                 saved.empty() ? nullptr : saved.data() + plane * s.m * tables.k);
  });
  report(forward_work(s, tables.k));
}

void scores_first_backward(const LinformerTables& tables, const AttentionInputs& in, ConstHeads dy,
                           std::span<const float> saved, const AttentionGradients& grad,
                           std::span<float> signals, Arena& arena) {
  const AttentionShape s = shape_of(in);
  const std::size_t floats = scratch_floats(s, tables.k);
  const std::size_t table = tables.k * s.n;
  const auto memory = arena.take(workers() * floats);
  std::ranges::fill(signals, 0.0F);
  parallel_for(s.batch * s.kv_heads, [&](std::size_t plane, std::size_t worker) {
    const std::size_t b = plane / s.kv_heads;
    const std::size_t kv = plane % s.kv_heads;
    const std::size_t group = s.heads / s.kv_heads;
    const std::size_t keys = in.mask.keys(b, s.n);
    float* at = signals.data() + plane * 2 * table;
    clear(grad.k.head(b, kv));
    clear(grad.v.head(b, kv));
    for (std::size_t h = kv * group; h < (kv + 1) * group; ++h) {
      const Head head{tables, in, b, h, memory.data() + worker * floats};
      const float* p = saved.data() + (b * s.heads + h) * s.m * tables.k;
      backward_head(head, dy.head(b, h), {p, s.m, tables.k}, grad, {at, tables.k, keys, s.n},
                    {at + table, tables.k, keys, s.n});
    }
  });
  report(backward_work(s, tables.k));
}

void scores_first_accumulate(const AttentionInputs& in, std::size_t k, bool per_head,
                             std::span<const float> signals, Matrix de, Matrix df) {
  const AttentionShape s = shape_of(in);
  for (std::size_t plane = 0; plane < s.batch * s.kv_heads; ++plane) {
    const std::size_t keys = in.mask.keys(plane / s.kv_heads, s.n);
    const std::size_t first = per_head ? plane % s.kv_heads * k : 0;
    for (std::size_t row = 0; row < 2 * k; ++row) {
      const float* from = signals.data() + (plane * 2 * k + row) * s.n;
      float* to = row < k ? de.row_data(first + row) : df.row_data(first + row - k);
      for (std::size_t j = 0; j < keys; ++j) to[j] += from[j];
    }
  }
  report(update_work(s, k));
}

}  // namespace longspan
