#include "longspan/base/integers.h"
#include "longspan/kernels/tiled/tiled_attention.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/tiled/tiled_attention_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/tiled/tiled_attention-inl.h"
// clang-format on

#ifndef LONGSPAN_KERNELS_TILED_ATTENTION_BACKWARD_CC_
#define LONGSPAN_KERNELS_TILED_ATTENTION_BACKWARD_CC_
namespace longspan {

// The parts of the scratch, in floats. The sums come first: they outlive a call.
struct BackwardLayout {
  static constexpr std::size_t kPitch = tile_pitch(kQueryBlock);
  std::size_t dk, dv, keys, values, qt, dyt, dqt, q, dy, p, ds, lse, delta, total;

  BackwardLayout(std::size_t d, std::size_t e) {
    std::size_t at = 0;
    auto take = [&at](std::size_t floats) { return (at += floats) - floats; };
    dk = take(kKeyPass * tile_pitch(d));
    dv = take(kKeyPass * tile_pitch(e));
    keys = take(kKeyPass * tile_pitch(d));
    values = take(kKeyPass * tile_pitch(e));
    qt = take(d * kPitch);
    dyt = take(e * kPitch);
    dqt = take(d * kPitch);
    q = take(kQueryBlock * tile_pitch(d));
    dy = take(kQueryBlock * tile_pitch(e));
    p = take(kKeyBlock * kPitch);
    ds = take(kKeyBlock * kPitch);
    lse = take(kPitch);
    delta = take(kPitch);
    total = at;
  }
};

}  // namespace longspan
#endif

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {

// A block of queries, packed for a pass over the keys.
struct QueryBlock {
  Right q, dy;  // [query][d], [query][e]
};

struct KeyBlock {
  Left k, v;       // [key][d], [key][e]
  float *dk, *dv;  // their sums
};

// P and dS from S and dP, both as they lie in memory, of a group of lanes.
template <int kVectors, bool kCapped>
HWY_INLINE void group_gradient(const TiledHead& head, const Tile& t, std::size_t rows,
                               std::size_t column, float* p, float* ds, const float* lse,
                               const float* delta) {
  const float inverse = kCapped ? 1.0F / (head.cap * kLog2E) : 0.0F;
  if (head.dropout.active()) {
    return for_each_dropout<kVectors>(head, t, rows, column, [&](std::size_t at, VF f) HWY_ATTR {
      dropped_gradient<kCapped>(p + at, ds + at, f, lse + at % kPitch, delta + at % kPitch,
                                inverse);
    });
  }
  for (std::size_t c = column; c < column + kVectors * kVectorLanes; c += kVectorLanes) {
    score_gradient<kCapped>(p + c, ds + c, rows, lse + c, delta + c, inverse);
  }
}

// P and dS of a tile; rows that a group of lanes does not see become zeros.
void tile_gradients(const TiledHead& head, const Tile& t, const KeyBlock& keys, float* ddistances,
                    float* memory, const BackwardLayout& at, TileCounts& counts) {
  float* p = memory + at.p;
  float* ds = memory + at.ds;
  for_each_group(tile_width(t.lanes), [&](std::size_t column, auto vectors) HWY_ATTR {
    constexpr int kVectors = vectors();
    constexpr std::size_t kWidth = kVectors * kVectorLanes;
    const std::size_t rows = group_keys<kVectors>(head, t, column);
    if (rows > 0) {
      tile_gemm_group<kVectors>(keys.k, {memory + at.qt, kPitch}, rows, head.q.cols, {p, kPitch},
                                column);
      tile_gemm_group<kVectors>(keys.v, {memory + at.dyt, kPitch}, rows, head.v.cols, {ds, kPitch},
                                column);
      mask_scores<kVectors>(head, t, rows, column, p);
      const float* lse = memory + at.lse;
      const float* delta = memory + at.delta;
      for (std::size_t c = column; c < column + kWidth; c += kVectorLanes) {
        if (exceeds(lse + c, head.q.rows <= kFewQueries)) limit_to_level(p + c, rows, lse + c);
      }
      if (head.cap > 0.0F) {
        group_gradient<kVectors, true>(head, t, rows, column, p, ds, lse, delta);
      } else {
        group_gradient<kVectors, false>(head, t, rows, column, p, ds, lse, delta);
      }
      if (ddistances != nullptr) {
        gather_distances<kVectors>(head, t, rows, column, ds, ddistances);
      }
    }
    for (std::size_t j = rows; j < t.keys; ++j) {
      std::fill_n(p + j * kPitch + column, kWidth, 0.0F);
      std::fill_n(ds + j * kPitch + column, kWidth, 0.0F);
    }
    count_tile(head, t, column, column + kWidth, counts);
  });
}

// dV += Pᵀ·dy, dK += dSᵀ·Q and dQᵀ += Kᵀ·dSᵀ for one tile. On the diagonal, 16 keys at a time
// start at the first query that sees them.
void add_products(const TiledHead& head, const Tile& t, const KeyBlock& keys,
                  const QueryBlock& queries, float* memory, const BackwardLayout& at) {
  const std::size_t d = head.q.cols;
  const std::size_t e = head.v.cols;
  const float* p = memory + at.p;
  const float* ds = memory + at.ds;
  const std::size_t step = seen(head, t, 0) < t.keys ? kTileUnit : t.keys;
  std::size_t lane = 0;
  for (std::size_t key = 0; key < t.keys; key += step) {
    const std::size_t rows = std::min(step, t.keys - key);
    while (lane < t.lanes && seen(head, t, lane) <= key) ++lane;
    if (lane == t.lanes) break;
    const std::size_t depth = t.lanes - lane;
    const std::size_t from = key * kPitch + lane;
    tile_gemm({p + from, kPitch}, {queries.dy.data + lane * queries.dy.stride, queries.dy.stride},
              rows, depth, tile_width(e),
              {keys.dv + key * tile_pitch(e), tile_pitch(e), Start::kAdd});
    tile_gemm({ds + from, kPitch}, {queries.q.data + lane * queries.q.stride, queries.q.stride},
              rows, depth, tile_width(d),
              {keys.dk + key * tile_pitch(d), tile_pitch(d), Start::kAdd});
  }
  const Left transposed{keys.k.data, keys.k.stride, true};
  for_each_group(tile_width(t.lanes), [&](std::size_t column, auto vectors) HWY_ATTR {
    constexpr int kVectors = vectors();
    const std::size_t depth = group_keys<kVectors>(head, t, column);
    if (depth == 0) return;
    tile_gemm_group<kVectors>(transposed, {ds, kPitch}, d, depth,
                              {memory + at.dqt, kPitch, Start::kAdd}, column);
  });
}

QueryBlock pack_block(const TiledHead& head, const TiledGradient& gradient, const Tile& t,
                      float* memory, const BackwardLayout& at) {
  const QueryBlock block{right_rows(head.q, t.query, t.lanes, memory + at.q),
                         right_rows(gradient.dy, t.query, t.lanes, memory + at.dy)};
  const auto rows = [&t](Right x, std::size_t cols) {
    return ConstMatrix(x.data, t.lanes, cols, x.stride);
  };
  pack_queries(rows(block.q, head.q.cols), head.scale * kLog2E, memory + at.qt);
  pack_queries(rows(block.dy, head.v.cols), 1.0F, memory + at.dyt);
  std::fill_n(memory + at.dqt, head.q.cols * kPitch, 0.0F);
  std::fill_n(memory + at.lse, kPitch, std::numeric_limits<float>::infinity());
  std::fill_n(memory + at.delta, kPitch, 0.0F);
  std::copy_n(gradient.lse + t.query, t.lanes, memory + at.lse);
  std::copy_n(gradient.delta + t.query, t.lanes, memory + at.delta);
  return block;
}

// One block of queries against the keys of a pass.
void backward_block(const TiledHead& head, const TiledGradient& gradient, const Tile& pass,
                    const KeyBlock& keys, float* memory, TileCounts& counts) {
  const std::size_t d = head.q.cols;
  const std::size_t e = head.v.cols;
  const BackwardLayout at(d, e);
  const QueryBlock queries = pack_block(head, gradient, pass, memory, at);
  const std::size_t tiles = divide_up(pass.keys, kKeyBlock);
  for (std::size_t j = 0; j < pass.keys; j += kKeyBlock) {
    const Tile t{pass.query, pass.lanes, pass.key + j, std::min(kKeyBlock, pass.keys - j)};
    if (!meets(head, t)) continue;
    prefetch_rows<kQueryBlock>(head.q, pass.query + kQueryBlock, j / kKeyBlock, tiles);
    prefetch_rows<kQueryBlock>(gradient.dy, pass.query + kQueryBlock, j / kKeyBlock, tiles);
    const KeyBlock block{{keys.k.data + j * keys.k.stride, keys.k.stride},
                         {keys.v.data + j * keys.v.stride, keys.v.stride},
                         keys.dk + j * tile_pitch(d),
                         keys.dv + j * tile_pitch(e)};
    tile_gradients(head, t, block, gradient.ddistances, memory, at, counts);
    add_products(head, t, block, queries, memory, at);
    if (gradient.dbias != nullptr) {
      transpose<true>(memory + at.ds, kPitch, t.keys, t.lanes, 1.0F,
                      gradient.dbias + t.query * gradient.dbias_stride + t.key,
                      gradient.dbias_stride);
    }
  }
  transpose<true>(memory + at.dqt, kPitch, d, pass.lanes, head.scale,
                  gradient.dq.row_data(pass.query), gradient.dq.stride);
  for (std::size_t lane = 0; lane < pass.lanes; ++lane) {
    counts.query_passes += seen(head, pass, lane) > past(head, pass, lane) ? 1 : 0;
  }
}

void scale_row(const float* HWY_RESTRICT from, std::size_t width, float scale,
               float* HWY_RESTRICT to) {
  const DF d;
  const VF s = hn::Set(d, scale);
  std::size_t c = 0;
  for (; c + kVectorLanes <= width; c += kVectorLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, from + c), s), d, to + c);
  }
  for (; c < width; ++c) to[c] = scale * from[c];
}

}  // namespace

void BackwardPass(const TiledHead& head, const TiledGradient& gradient, std::size_t first,
                  float* memory, TileCounts& counts) {
  if (first >= head.keys) return;
  const BackwardLayout at(head.q.cols, head.v.cols);
  const std::size_t count = std::min(kKeyPass, head.keys - first);
  const KeyBlock keys{dense_rows(head.k, first, count, memory + at.keys),
                      dense_rows(head.v, first, count, memory + at.values), memory + at.dk,
                      memory + at.dv};
  for (std::size_t query = 0; query < head.q.rows; query += kQueryBlock) {
    const Tile pass{query, std::min(kQueryBlock, head.q.rows - query), first, count};
    if (!meets(head, pass)) continue;
    backward_block(head, gradient, pass, keys, memory, counts);
  }
}

void BackwardStore(float scale, const float* memory, Matrix dk, Matrix dv, TileCounts& counts) {
  const BackwardLayout at(dk.cols, dv.cols);
  for (std::size_t j = 0; j < dk.rows; ++j) {
    scale_row(memory + at.dk + j * tile_pitch(dk.cols), dk.cols, scale, dk.row_data(j));
    std::copy_n(memory + at.dv + j * tile_pitch(dv.cols), dv.cols, dv.row_data(j));
  }
  counts.keys += dk.rows;
}

// Σ_c y[c]·dy[c], in a fixed order.
void Delta(ConstMatrix y, ConstMatrix dy, float* delta) {
  const DF d;
  for (std::size_t i = 0; i < y.rows; ++i) {
    const float* a = y.row_data(i);
    const float* b = dy.row_data(i);
    VF sum = hn::Zero(d);
    std::size_t c = 0;
    for (; c + kVectorLanes <= y.cols; c += kVectorLanes) {
      sum = hn::MulAdd(hn::LoadU(d, a + c), hn::LoadU(d, b + c), sum);
    }
    float total = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; c < y.cols; ++c) total += a[c] * b[c];
    delta[i] = total;
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(BackwardPass);
HWY_EXPORT(BackwardStore);
HWY_EXPORT(Delta);

std::size_t tiled_backward_scratch(std::size_t d, std::size_t e) {
  return BackwardLayout(d, e).total;
}

void tiled_delta(ConstMatrix y, ConstMatrix dy, float* delta) {
  HWY_DYNAMIC_DISPATCH(Delta)(y, dy, delta);
}

void tiled_backward_clear(std::size_t count, std::size_t d, std::size_t e, float* scratch) {
  const BackwardLayout at(d, e);
  std::fill_n(scratch + at.dk, count * tile_pitch(d), 0.0F);
  std::fill_n(scratch + at.dv, count * tile_pitch(e), 0.0F);
}

void tiled_backward_add(const TiledHead& head, const TiledGradient& gradient, std::size_t first,
                        float* scratch, TileCounts& counts) {
  HWY_DYNAMIC_DISPATCH(BackwardPass)(head, gradient, first, scratch, counts);
}

void tiled_backward_store(float scale, const float* scratch, Matrix dk, Matrix dv,
                          TileCounts& counts) {
  HWY_DYNAMIC_DISPATCH(BackwardStore)(scale, scratch, dk, dv, counts);
}

}  // namespace longspan
#endif  // HWY_ONCE
