#include "longspan/attention/exact/full.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/base/memory.h"
#include "longspan/base/parallel.h"
#include "longspan/base/sizes.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/softmax.h"

namespace longspan {

namespace {

constexpr std::size_t kRowsAtATime = 128;  // queries that are worked on at a time

// What ran, one per worker. Pairs are those of the matrix in memory: padding has its place there,
// although no product reads it.
struct alignas(64) Counts {
  std::uint64_t queries = 0;
  std::uint64_t pairs = 0;
};

std::size_t rows_at_once(const AttentionShape& s) { return std::min(kRowsAtATime, s.m); }

std::size_t pairs_of(const AttentionShape& s) { return size_product(s.batch, s.heads, s.m, s.n); }

// What is needed beside the counts: forward the whole matrix, backward each worker's rows of dS;
// and each worker's scaled queries.
std::size_t query_floats(const AttentionShape& s) {
  return Arena::bytes_for(rows_at_once(s) * s.d) / sizeof(float);
}
std::size_t gradient_floats(const AttentionShape& s) {
  return Arena::bytes_for(rows_at_once(s) * s.n) / sizeof(float);
}
std::size_t scratch_bytes(const AttentionShape& s, std::size_t scores) {
  return Arena::bytes_for<Counts>(workers()) + Arena::bytes_for(scores) +
         Arena::bytes_for(workers() * query_floats(s));
}

Work forward_work(const AttentionShape& s, const Counts& c) {
  Work work;
  work.maccs = c.pairs * (s.d + s.e);
  work[Kind::kMatmul] = c.queries * s.d;
  work[Kind::kSoftmax] = 5 * c.pairs;
  if (s.bias) work[Kind::kAdd] = c.pairs;
  if (s.dropout) work[Kind::kDropout] = c.pairs;
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] =
      4 * (c.queries * (s.d + s.e) + s.batch * s.kv_heads * s.n * (s.d + s.e) + 2 * c.pairs);
  work.bytes[static_cast<std::size_t>(Kind::kSoftmax)] = 8 * c.pairs;
  return work;
}

Work backward_work(const AttentionShape& s, const Counts& c) {
  Work work;
  work.maccs = c.pairs * (2 * s.d + 2 * s.e);
  work[Kind::kMatmul] = c.queries * s.d;
  work[Kind::kSoftmax] = 4 * c.pairs;
  if (s.bias_gradient) work[Kind::kAdd] = c.pairs;
  if (s.dropout) work[Kind::kDropout] = 2 * c.pairs;
  work.bytes[static_cast<std::size_t>(Kind::kMatmul)] =
      4 *
      (c.queries * (2 * s.d + s.e) + 2 * s.batch * s.kv_heads * s.n * (s.d + s.e) + 4 * c.pairs);
  work.bytes[static_cast<std::size_t>(Kind::kSoftmax)] = 12 * c.pairs;
  return work;
}

struct Workspace {
  Workspace(const AttentionShape& s, std::size_t score_floats, Arena& arena)
      : counts(arena.take<Counts>(workers())),
        scores(arena.take(score_floats)),
        shape_(s),
        queries_(arena.take(workers() * query_floats(s))) {
    std::ranges::fill(counts, Counts{});
  }
  Matrix queries(std::size_t worker, std::size_t rows) const {
    return {queries_.data() + worker * query_floats(shape_), rows, shape_.d};
  }
  // Backward: the rows that a worker works on.
  Matrix gradients(std::size_t worker, std::size_t rows) const {
    return {scores.data() + worker * gradient_floats(shape_), rows, shape_.n};
  }
  void count(std::size_t worker, std::size_t rows) const {
    counts[worker].queries += rows;
    counts[worker].pairs += rows * shape_.n;
  }
  Counts total() const {
    Counts sum;
    for (const Counts& c : counts) {
      sum.queries += c.queries;
      sum.pairs += c.pairs;
    }
    return sum;
  }

  std::span<Counts> counts;
  std::span<float> scores;

 private:
  const AttentionShape& shape_;
  std::span<float> queries_;
};

// One head and the rows of it that are worked on.
struct Rows {
  std::size_t b, h;
  std::size_t first, count;
};

void scale_queries(ConstMatrix q, float scale, Matrix to) {
  for (std::size_t i = 0; i < q.rows; ++i) {
    for (std::size_t c = 0; c < q.cols; ++c) to.row_data(i)[c] = scale * q.row_data(i)[c];
  }
}

void add_bias_and_hide(const AttentionInputs& in, const Rows& r, Matrix scores) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < scores.rows; ++i) {
    const auto row = scores.row(i);
    if (in.mask.bias) {
      const float* bias = in.mask.bias.row(r.b, r.h, r.first + i);
      for (std::size_t j = 0; j < row.size(); ++j) row[j] += bias[j];
    }
    if (in.mask.visible) {
      const std::uint8_t* visible = in.mask.visible.row(r.b, r.h, r.first + i);
      for (std::size_t j = 0; j < row.size(); ++j) row[j] = visible[j] != 0 ? row[j] : kHidden;
    }
    const std::size_t end = visible_end(in.mask, r.b, r.first + i, in.q.n, in.k.n);
    std::fill(row.begin() + static_cast<std::ptrdiff_t>(end), row.end(), kHidden);
  }
}

// to = F⊙from; the same matrix is allowed.
void drop(const AttentionInputs& in, const Rows& r, ConstMatrix from, Matrix to) {
  const auto plane = static_cast<std::uint32_t>(r.b * in.q.heads + r.h);
  const std::uint32_t threshold = in.dropout.threshold();
  const float scale = in.dropout.scale();
  for (std::size_t i = 0; i < from.rows; ++i) {
    const auto row = static_cast<std::uint32_t>(r.first + i);
    for (std::size_t j = 0; j < from.cols; j += 4) {
      const RandomBlock bits =
          philox(in.dropout.key, {row, static_cast<std::uint32_t>(j / 4), plane, 0});
      for (std::size_t w = 0; w < std::min<std::size_t>(4, from.cols - j); ++w) {
        to.row_data(i)[j + w] = bits[w] < threshold ? 0.0F : scale * from.row_data(i)[j + w];
      }
    }
  }
}

float scale_of(const AttentionInputs& in) { return 1.0F / std::sqrt(static_cast<float>(in.q.d)); }

// The rows of a matrix [batch, heads, m, n].
template <class Float>
MatrixView<Float> rows_of(std::span<Float> all, const AttentionInputs& in, const Rows& r) {
  const std::size_t row = (r.b * in.q.heads + r.h) * in.q.n + r.first;
  return {all.data() + row * in.k.n, r.count, in.k.n};
}

// The keys, values or gradients of a head without their padding.
template <class Float>
MatrixView<Float> real_rows(const AttentionInputs& in, std::size_t b, MatrixView<Float> head) {
  return head.slice_rows(0, in.mask.keys(b, in.k.n));
}

// y_i = Σ_j P_ij·v_j again where it is no number, over the keys that i sees: in the product a
// weight of 0 does not silence a NaN.
void see_only_visible(const AttentionInputs& in, const Rows& r, ConstMatrix p, ConstMatrix v,
                      Matrix y) {
  const auto finite = [](float x) { return std::isfinite(x); };
  for (std::size_t i = 0; i < r.count; ++i) {
    const auto row = y.row(i);
    if (std::ranges::all_of(row, finite)) continue;
    std::ranges::fill(row, 0.0F);
    const std::size_t end = visible_end(in.mask, r.b, r.first + i, in.q.n, in.k.n);
    const std::uint8_t* visible =
        in.mask.visible ? in.mask.visible.row(r.b, r.h, r.first + i) : nullptr;
    for (std::size_t j = 0; j < end; ++j) {
      if (visible != nullptr && visible[j] == 0) continue;
      for (std::size_t c = 0; c < row.size(); ++c) row[c] += p.row_data(i)[j] * v.row_data(j)[c];
    }
  }
}

void forward_rows(const AttentionInputs& in, const Rows& r, Heads y, std::span<float> saved,
                  Matrix scores, Matrix queries) {
  const std::size_t kv = r.h / (in.q.heads / in.k.heads);
  const ConstMatrix k = real_rows(in, r.b, in.k.head(r.b, kv));
  const ConstMatrix v = real_rows(in, r.b, in.v.head(r.b, kv));
  const Matrix real = scores.slice_cols(0, k.rows);
  const Matrix out = y.head(r.b, r.h).slice_rows(r.first, r.count);
  scale_queries(in.q.head(r.b, r.h).slice_rows(r.first, r.count), scale_of(in), queries);
  gemm_serial(queries, k, real, {.transpose_b = true});
  add_bias_and_hide(in, r, real);
  softmax_serial(real);
  for (std::size_t i = 0; i < r.count && k.rows < scores.cols; ++i) {
    std::ranges::fill(scores.row(i).subspan(k.rows), 0.0F);
  }
  if (!saved.empty()) {
    std::copy_n(scores.data, scores.size(), rows_of(saved, in, r).data);
  }
  if (in.dropout.active()) drop(in, r, real, real);
  gemm_serial(real, v, out);
  if (in.mask.causal || in.mask.visible) see_only_visible(in, r, real, v, out);
}

// Adds these rows' part of dk and dv, the first of them sets. P, like `scores`, without padding.
void backward_rows(const AttentionInputs& in, const Rows& r, ConstMatrix dy, ConstMatrix p,
                   const AttentionGradients& grad, Matrix scores, Matrix queries) {
  const std::size_t group = in.q.heads / in.k.heads;
  const std::size_t kv = r.h / group;
  const bool later = r.h % group > 0 || r.first > 0;
  const bool dropped = in.dropout.active();
  const Matrix dk = real_rows(in, r.b, grad.k.head(r.b, kv));
  const Matrix dv = real_rows(in, r.b, grad.v.head(r.b, kv));
  if (dropped) drop(in, r, p, scores);
  gemm_serial(dropped ? ConstMatrix(scores) : p, dy, dv, {.transpose_a = true, .add = later});
  gemm_serial(dy, real_rows(in, r.b, in.v.head(r.b, kv)), scores, {.transpose_b = true});
  if (dropped) drop(in, r, scores, scores);
  softmax_backward_serial(p, scores, scores);
  scale_queries(in.q.head(r.b, r.h).slice_rows(r.first, r.count), scale_of(in), queries);
  gemm_serial(scores, real_rows(in, r.b, in.k.head(r.b, kv)),
              grad.q.head(r.b, r.h).slice_rows(r.first, r.count), {.alpha = scale_of(in)});
  gemm_serial(scores, queries, dk, {.transpose_a = true, .add = later});
  for (std::size_t i = 0; grad.bias && i < r.count; ++i) {
    float* bias = grad.bias.row(r.b, r.h, r.first + i);
    for (std::size_t j = 0; j < scores.cols; ++j) bias[j] += scores.row_data(i)[j];
  }
}

}  // namespace

AttentionCost FullAttention::cost(const AttentionShape& s) const {
  const std::uint64_t queries = s.batch * s.heads * s.m;
  const Counts counts{.queries = queries, .pairs = pairs_of(s)};
  AttentionCost cost;
  cost.forward = forward_work(s, counts);
  cost.backward = backward_work(s, counts);
  cost.saved = counts.pairs;
  cost.forward_scratch = scratch_bytes(s, pairs_of(s));
  cost.backward_scratch = scratch_bytes(s, workers() * gradient_floats(s));
  return cost;
}

void FullAttention::check_memory(const AttentionShape& s) const {
  const std::uint64_t need = cost(s).forward_scratch;
  const std::uint64_t have = available_memory();
  require(need <= have, "[{}] needs {} for its {} x {} x {} matrix; {} are available: use flash",
          kName, format_bytes(need), s.batch * s.heads, s.m, s.n, format_bytes(have));
}

void FullAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  const Workspace work(s, pairs_of(s), arena);
  const std::size_t pieces = divide_up(s.m, kRowsAtATime);
  parallel_for(s.batch * s.heads * pieces, [&](std::size_t task, std::size_t worker) {
    const std::size_t plane = task / pieces;
    const std::size_t first = task % pieces * kRowsAtATime;
    const Rows r{plane / s.heads, plane % s.heads, first, std::min(kRowsAtATime, s.m - first)};
    forward_rows(in, r, y, saved, rows_of(work.scores, in, r), work.queries(worker, r.count));
    work.count(worker, r.count);
  });
  report(forward_work(s, work.total()));
}

void FullAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  Arena& arena = call.arena;
  AttentionShape s = shape_of(in);
  s.bias_gradient = static_cast<bool>(grad.bias);
  const Workspace work(s, workers() * gradient_floats(s), arena);
  // Sequences and heads that share a plane of the bias, whose gradient is a sum, take their turns
  // in one task.
  const std::size_t batches = grad.bias && grad.bias.batch_stride == 0 ? 1 : s.batch;
  const std::size_t kv_groups = grad.bias && grad.bias.head_stride == 0 ? 1 : s.kv_heads;
  const std::size_t sequences = s.batch / batches;
  const std::size_t heads = s.heads / kv_groups;
  auto run_head = [&](std::size_t b, std::size_t h, std::size_t worker) {
    for (std::size_t first = 0; first < s.m; first += kRowsAtATime) {
      const Rows r{b, h, first, std::min(kRowsAtATime, s.m - first)};
      const std::size_t keys = in.mask.keys(b, s.n);
      backward_rows(in, r, dy.head(b, h).slice_rows(r.first, r.count),
                    rows_of(saved, in, r).slice_cols(0, keys), grad,
                    work.gradients(worker, r.count).slice_cols(0, keys),
                    work.queries(worker, r.count));
      work.count(worker, r.count);
    }
  };
  const auto clear_padding = [&](std::size_t b, std::size_t kv) {
    for (std::size_t j = in.mask.keys(b, s.n); j < s.n; ++j) {
      std::ranges::fill(grad.k.head(b, kv).row(j), 0.0F);
      std::ranges::fill(grad.v.head(b, kv).row(j), 0.0F);
    }
  };
  const std::size_t group = s.heads / s.kv_heads;
  parallel_for(batches * kv_groups, [&](std::size_t task, std::size_t worker) {
    const std::size_t b0 = task / kv_groups * sequences;
    const std::size_t h0 = task % kv_groups * heads;
    for (std::size_t b = b0; b < b0 + sequences; ++b) {
      for (std::size_t h = h0; h < h0 + heads; ++h) run_head(b, h, worker);
      for (std::size_t kv = h0 / group; kv < (h0 + heads) / group; ++kv) clear_padding(b, kv);
    }
  });
  report(backward_work(s, work.total()));
}

}  // namespace longspan
