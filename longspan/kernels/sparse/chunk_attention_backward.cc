#include "longspan/kernels/sparse/chunk_attention.h"
#include "longspan/kernels/sparse/chunk_layout.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/sparse/chunk_attention_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/sparse/chunk_attention-inl.h"
// clang-format on

#ifndef LONGSPAN_KERNELS_CHUNK_ATTENTION_BACKWARD_CC_
#define LONGSPAN_KERNELS_CHUNK_ATTENTION_BACKWARD_CC_
namespace longspan {

struct ChunkBackward {
  GatheredGroup group;
  ChunkLanes lanes;
  float *dk, *dv, *q, *dy, *qt, *dyt, *dqt, *p, *ds, *lse, *delta;

  ChunkBackward(const ChunkLayout& l, std::size_t d, std::size_t e, Parts<float>& floats,
                Parts<std::int32_t>& integers)
      : group(take_group(l, d, e, floats, integers)), lanes(take_lanes(l, integers)) {
    constexpr std::size_t kWidth = tile_pitch(kQueryBlock);
    dk = floats.take(group.slots * tile_pitch(d));
    dv = floats.take(group.slots * tile_pitch(e));
    q = floats.take(kQueryBlock * tile_pitch(d));
    dy = floats.take(kQueryBlock * tile_pitch(e));
    qt = floats.take(d * kWidth);
    dyt = floats.take(e * kWidth);
    dqt = floats.take(d * kWidth);
    p = floats.take(l.seen() * l.chunk * kWidth);
    ds = floats.take(l.seen() * l.chunk * kWidth);
    lse = floats.take(kWidth);
    delta = floats.take(kWidth);
  }
};

}  // namespace longspan
#endif

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {

// S and dP of a vector of queries become P and f⊙dS.
HWY_INLINE void chunk_gradient(const ChunkedHead& head, const ChunkBackward& f, std::size_t lane,
                               const Slots& s, const MeetingRange& range) {
  constexpr float kLn2 = 0.693147181F;
  const DF d;
  float* p = f.p + lane;
  float* ds = f.ds + lane;
  mask_slots(f.group, f.lanes, lane, s, p);
  if (exceeds(f.lse + lane, false)) limit_to_level(p, s.count(), f.lse + lane);
  const VF level = hn::LoadU(d, f.lse + lane);
  const VF center = hn::LoadU(d, f.delta + lane);
  for (std::size_t j = s.first; j < s.last; ++j, p += kPitch, ds += kPitch) {
    VF weight = exp2_nonpositive(d, hn::Sub(hn::LoadU(d, p), level));
    if (head.code != nullptr) {
      weight = hn::Div(weight, repetition(head, f.group, f.lanes, lane, j, range));
    }
    hn::StoreU(weight, d, p);
    const VF slope = hn::Mul(weight, hn::Set(d, f.group.factor[j] * kLn2));
    hn::StoreU(hn::Mul(slope, hn::Sub(hn::LoadU(d, ds), center)), d, ds);
  }
}

// All products of one block of queries.
void block_gradients(const ChunkedHead& head, const ChunkBlock& b, Right q, Right dy,
                     const ChunkBackward& f) {
  const GatheredGroup& g = f.group;
  const std::size_t d = head.q.cols;
  const std::size_t e = head.v.cols;
  const std::size_t dp = tile_pitch(d);
  const std::size_t ep = tile_pitch(e);
  const MeetingRange range = meeting_range(head);
  for_each_group(tile_width(b.lanes), [&](std::size_t column, auto vectors) HWY_ATTR {
    constexpr int kVectors = vectors();
    constexpr std::size_t kWidth = kVectors * kVectorLanes;
    const Slots s = visible_slots(head, b, column, kWidth, g, f.lanes);
    const std::size_t rows = s.count();
    const float* k = g.k + s.first * dp;
    tile_gemm_group<kVectors>({k, dp}, {f.qt, kPitch}, rows, d, {f.p, kPitch}, column);
    tile_gemm_group<kVectors>({g.v + s.first * ep, ep}, {f.dyt, kPitch}, rows, e, {f.ds, kPitch},
                              column);
    for (std::size_t lane = column; lane < column + kWidth; lane += kVectorLanes) {
      chunk_gradient(head, f, lane, s, range);
    }
    if (column >= b.lanes) return;
    const std::size_t depth = std::min(kWidth, b.lanes - column);
    tile_gemm({f.p + column, kPitch}, {dy.data + column * dy.stride, dy.stride}, rows, depth,
              tile_width(e), {f.dv + s.first * ep, ep, Start::kAdd});
    tile_gemm({f.ds + column, kPitch}, {q.data + column * q.stride, q.stride}, rows, depth,
              tile_width(d), {f.dk + s.first * dp, dp, Start::kAdd});
    tile_gemm_group<kVectors>({k, dp, true}, {f.ds, kPitch}, d, rows, {f.dqt, kPitch}, column);
  });
}

HWY_INLINE float dot_rows(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                          std::size_t width) {
  const DF d;
  VF sum = hn::Zero(d);
  for (std::size_t c = 0; c < width; c += kVectorLanes) {
    sum = hn::MulAdd(hn::LoadU(d, a + c), hn::LoadU(d, b + c), sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// to += x + factor·z over the first `cols` of padded rows.
HWY_INLINE void add_rows(const float* HWY_RESTRICT x, float factor, const float* HWY_RESTRICT z,
                         std::size_t cols, float* HWY_RESTRICT to) {
  const DF d;
  const VF f = hn::Set(d, factor);
  std::size_t c = 0;
  for (; c + kVectorLanes <= cols; c += kVectorLanes) {
    const VF more = hn::MulAdd(hn::LoadU(d, z + c), f, hn::LoadU(d, x + c));
    hn::StoreU(hn::Add(hn::LoadU(d, to + c), more), d, to + c);
  }
  for (; c < cols; ++c) to[c] += factor * z[c] + x[c];
}

// The keys' sums go to their tokens.
void scatter_keys(const ChunkedHead& head, const ChunkGradient& gradient, const ChunkBackward& f,
                  const Slots& slots) {
  const std::size_t d = head.q.cols;
  const std::size_t e = head.v.cols;
  const std::span<const std::int32_t> tokens(f.group.token, slots.last);
  for (std::size_t j = slots.first; j < slots.last; ++j) {
    prefetch_row(gradient.dk, tokens, j + kRowsAhead);
    prefetch_row(gradient.dv, tokens, j + kRowsAhead);
    const auto token = static_cast<std::size_t>(f.group.token[j]);
    if (token >= head.real) continue;
    const float* g = f.dk + j * tile_pitch(d);
    const float* k = f.group.k + j * tile_pitch(d);
    float along = 0.0F;
    if (gradient.kappa != nullptr) {
      along = -gradient.kappa[token] * dot_rows(g, k, tile_width(d));
    }
    add_rows(g, along, k, d, gradient.dk.row_data(token));
    const float* dv = f.dv + j * tile_pitch(e);
    add_rows(dv, 0.0F, dv, e, gradient.dv.row_data(token));
  }
}

void scatter_queries(const ChunkedHead& head, const ChunkGradient& gradient, const ChunkBlock& b,
                     const ChunkBackward& f) {
  const std::size_t d = head.q.cols;
  const std::size_t pitch = tile_pitch(d);
  float* rows = f.q;  // the block's queries are no longer needed
  transpose<false>(f.dqt, kPitch, d, b.lanes, 1.0F, rows, pitch);
  for (std::size_t i = 0; i < b.lanes; ++i) {
    const auto token = static_cast<std::size_t>(f.group.token[b.slot + i]);
    add_rows(rows + i * pitch, 0.0F, rows + i * pitch, d, gradient.dq.row_data(token));
  }
}

void pack_gradient(const ChunkedHead& head, const ChunkGradient& gradient, const ChunkBlock& b,
                   const ChunkBackward& f) {
  const std::size_t e = head.v.cols;
  std::fill_n(f.lse, kPitch, std::numeric_limits<float>::infinity());
  std::fill_n(f.delta, kPitch, 0.0F);
  const std::span<const std::int32_t> tokens = tokens_of(b, f.group);
  for (std::size_t i = 0; i < b.lanes; ++i) {
    prefetch_row(gradient.dy, tokens, i + kRowsAhead);
    prefetch_row(gradient.dq, tokens, i);  // for scatter_queries
    const auto token = static_cast<std::size_t>(tokens[i]);
    copy_row(gradient.dy.row_data(token), e, f.dy + i * tile_pitch(e));
    f.lse[i] = gradient.lse[token];
    f.delta[i] = gradient.delta[token];
  }
  pack_queries(ConstMatrix(f.dy, b.lanes, e, tile_pitch(e)), 1.0F, f.dyt);
}

}  // namespace

void ChunkBackwardGroup(const ChunkedHead& head, const ChunkGradient& gradient, std::size_t round,
                        std::size_t group, const ChunkBackward& f, ChunkCounts& counts) {
  const std::size_t d = head.q.cols;
  const std::size_t e = head.v.cols;
  std::fill_n(f.dk, f.group.slots * tile_pitch(d), 0.0F);
  std::fill_n(f.dv, f.group.slots * tile_pitch(e), 0.0F);
  Slots touched{f.group.slots, 0};
  for_each_block(head, round, group, f.group, counts, [&](const ChunkBlock& b) HWY_ATTR {
    const Right q = query_rows(head, b, f.group, f.q);
    pack_queries(ConstMatrix(q.data, b.lanes, d, q.stride), 1.0F, f.qt);
    pack_gradient(head, gradient, b, f);
    prepare_lanes(head, b, round, f.group, f.lanes);
    block_gradients(head, b, q, {f.dy, tile_pitch(e)}, f);
    scatter_queries(head, gradient, b, f);
    touched = {std::min(touched.first, b.window.first), std::max(touched.last, b.window.last)};
  });
  scatter_keys(head, gradient, f, touched);
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(ChunkBackwardGroup);

ChunkScratch chunk_backward_scratch(const ChunkLayout& layout, std::size_t d, std::size_t e) {
  Parts<float> floats(nullptr);
  Parts<std::int32_t> integers(nullptr);
  const ChunkBackward parts(layout, d, e, floats, integers);
  return {floats.used(), integers.used()};
}

void chunk_backward(const ChunkedHead& head, const ChunkGradient& gradient, std::size_t round,
                    std::size_t group, float* floats, std::int32_t* integers, ChunkCounts& counts) {
  Parts<float> f(floats);
  Parts<std::int32_t> i(integers);
  const ChunkBackward parts(head.layout, head.q.cols, head.v.cols, f, i);
  HWY_DYNAMIC_DISPATCH(ChunkBackwardGroup)(head, gradient, round, group, parts, counts);
}

}  // namespace longspan
#endif  // HWY_ONCE
