#include "longspan/attention/position/relative_key.h"

#include <algorithm>
#include <numbers>
#include <vector>

#include "longspan/attention/position/relative_table.h"
#include "longspan/base/thread_kept.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/kernels/tiled/tile_layout.h"

namespace longspan {

namespace {

// As if all heads of all sequences were one's: they share D.
AttentionShape one_head(const AttentionShape& s) {
  AttentionShape one = s;
  one.batch = s.batch * s.heads;
  one.heads = 1;
  return one;
}

}  // namespace

// The rows of D that a shape reads: the distances [low, low + count).
struct RelativeKeyAttention::Rows {
  std::ptrdiff_t low = 0;
  std::size_t count = 0;

  // Of the distances from 1 − n on.
  void fill_buckets(std::size_t n, std::span<std::int32_t> out) const {
    const auto last = static_cast<std::ptrdiff_t>(count) - 1;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto r = static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(n - 1);
      out[i] = static_cast<std::int32_t>(std::clamp<std::ptrdiff_t>(r - low, 0, last));
    }
  }
};

// What forward and backward compute on.
struct RelativeKeyAttention::Operands {
  Rows rows;
  SparseInputs in;
};

Abilities RelativeKeyAttention::can(const RelativeKeyConfig& config) {
  check_numbers(kName, config);
  return {
      .causal = true, .key_lengths = true, .dropout = true, .grouped_heads = true, .decode = true};
}

RelativeKeyAttention::RelativeKeyAttention(const RelativeKeyConfig& config,
                                           const AttentionSite& site)
    : Attention(can(config)), config_(config) {
  table_ = &site.parameters.declare(site.name + ".relative.distances", 2 * config.positions - 1,
                                    site.d_head, Initializer::normal(site.deviation));
}

RelativeKeyAttention::Rows RelativeKeyAttention::rows(const AttentionShape& s) const {
  const std::size_t farthest = std::min(s.n, config_.positions) - 1;
  const std::size_t behind = s.causal ? 0 : farthest;
  return {-static_cast<std::ptrdiff_t>(behind), behind + farthest + 1};
}

RelativeKeyAttention::Operands RelativeKeyAttention::prepare(const AttentionInputs& in,
                                                             Arena& arena) const {
  const AttentionShape s = shape_of(in);
  const AttentionShape one = one_head(s);
  Operands x{rows(s), SparseInputs::of(in)};
  const std::size_t first = config_.positions - 1 - static_cast<std::size_t>(-x.rows.low);
  const ConstMatrix table = ConstMatrix(table_->matrix()).slice_rows(first, x.rows.count);
  const auto buckets = arena.take<std::int32_t>(bucket_count(s.n));
  x.rows.fill_buckets(s.n, buckets);
  x.in.relative.bucket = buckets.data() + s.n - 1;
  x.in.relative.q = in.q;
  ConstHeads packed = pack_table(table, one, arena.take(packed_floats(x.rows.count, one)));
  packed.batch = s.batch;
  packed.heads = s.heads;
  packed.head_stride = 0;
  x.in.relative.table = packed;
  if (!config_.p2c) return x;
  const Matrix columns = arena.matrix(s.d, x.rows.count + kTileUnit);
  for (std::size_t c = 0; c < s.d; ++c) {
    for (std::size_t r = 0; r < table.rows; ++r) {
      columns.row_data(c)[r] = x.in.scale * std::numbers::log2e_v<float> * table.row_data(r)[c];
    }
    std::fill_n(columns.row_data(c) + table.rows, kTileUnit, 0.0F);
  }
  x.in.relative.columns = columns;
  report(prepare_work(s));
  return x;
}

Work RelativeKeyAttention::prepare_work(const AttentionShape& s) const {
  const std::size_t size = rows(s).count * s.d;
  return config_.p2c ? flops(Kind::kMatmul, size, 8 * size) : Work();
}

std::size_t RelativeKeyAttention::prepare_bytes(const AttentionShape& s) const {
  const std::size_t count = rows(s).count;
  return Arena::bytes_for<std::int32_t>(bucket_count(s.n)) +
         Arena::bytes_for(packed_floats(count, one_head(s))) +
         (config_.p2c ? Arena::bytes_for(s.d * (count + kTileUnit)) : 0);
}

AttentionCost RelativeKeyAttention::cost(const AttentionShape& s) const {
  static const ThreadKept<std::vector<std::int32_t>> kept;
  std::vector<std::int32_t>& buckets = kept();
  if (buckets.size() < bucket_count(s.n)) buckets.resize(bucket_count(s.n));
  const std::size_t count = rows(s).count;
  rows(s).fill_buckets(s.n, std::span(buckets).first(bucket_count(s.n)));
  AttentionCost cost =
      sparse_cost(FullPattern(s, /*all=*/true),
                  {.bucket = buckets.data() + s.n - 1, .table = count, .columns = config_.p2c});
  cost.forward += prepare_work(s);
  cost.backward += prepare_work(s);
  cost.backward += sum_table_work(count, one_head(s));
  cost.signals = count * s.d;
  cost.update += flops(Kind::kAdd, cost.signals, 12 * cost.signals);
  cost.forward_scratch += prepare_bytes(s);
  cost.backward_scratch +=
      prepare_bytes(s) + Arena::bytes_for(s.batch * s.heads * count * tile_pitch(s.d));
  return cost;
}

void RelativeKeyAttention::run_forward(const ForwardCall& call) const {
  const Operands x = prepare(call.in, call.arena);
  sparse_forward(FullPattern(shape_of(call.in), /*all=*/true), x.in, call.y, call.saved,
                 call.arena);
}

void RelativeKeyAttention::run_backward(const BackwardCall& call) const {
  const AttentionShape s = shape_of(call.in);
  const Operands x = prepare(call.in, call.arena);
  SparseResults results{call.grad.q, call.grad.k, call.grad.v, {}};
  results.relative.table = call.arena.matrix(s.batch * s.heads * x.rows.count, tile_pitch(s.d));
  sparse_backward(FullPattern(s, /*all=*/true), x.in, call.y, call.dy, call.saved, results,
                  call.arena);
  sum_table(results.relative.table, one_head(s), Matrix(call.signals.data(), x.rows.count, s.d));
}

void RelativeKeyAttention::run_accumulate(const AttentionInputs& in,
                                          std::span<const float> /*saved*/,
                                          std::span<const float> signals) const {
  const AttentionShape s = shape_of(in);
  const Rows used = rows(s);
  const std::size_t first = config_.positions - 1 - static_cast<std::size_t>(-used.low);
  axpy(1.0F, ConstMatrix(signals.data(), used.count, s.d),
       table_->gradient_matrix().slice_rows(first, used.count));
}

}  // namespace longspan
