#include <cmath>

#include "longspan/kernels/sparse/chunk_attention.h"
#include "longspan/kernels/sparse/chunk_layout.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/sparse/chunk_attention_forward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/sparse/chunk_attention-inl.h"
// clang-format on

#ifndef LONGSPAN_KERNELS_CHUNK_ATTENTION_FORWARD_CC_
#define LONGSPAN_KERNELS_CHUNK_ATTENTION_FORWARD_CC_
namespace longspan {

struct ChunkForward {
  GatheredGroup group;
  ChunkLanes lanes;
  float *q, *qt, *scores, *o, *rows, *max, *sum, *keep, *take, *before;

  ChunkForward(const ChunkLayout& l, std::size_t d, std::size_t e, Parts<float>& floats,
               Parts<std::int32_t>& integers)
      : group(take_group(l, d, e, floats, integers)), lanes(take_lanes(l, integers)) {
    constexpr std::size_t kWidth = tile_pitch(kQueryBlock);
    q = floats.take(kQueryBlock * tile_pitch(d));
    qt = floats.take(d * kWidth);
    scores = floats.take(l.seen() * l.chunk * kWidth);
    o = floats.take(e * kWidth);
    rows = floats.take(kQueryBlock * tile_pitch(e));
    max = floats.take(kWidth);
    sum = floats.take(kWidth);
    keep = floats.take(kWidth);
    take = floats.take(kWidth);
    before = floats.take(kWidth);
  }
};

}  // namespace longspan
#endif

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {

// P, max and sum of a vector of queries.
HWY_INLINE void chunk_softmax(const ChunkedHead& head, const ChunkForward& f, std::size_t lane,
                              const Slots& s, const MeetingRange& range) {
  const DF d;
  float* scores = f.scores + lane;
  VF top = mask_slots(f.group, f.lanes, lane, s, scores);
  if (overflows(top)) top = limit_scores(scores, s.count(), top);
  VF sum = hn::Zero(d);
  for (std::size_t j = s.first; j < s.last; ++j, scores += kPitch) {
    VF p = exp2_nonpositive(d, hn::Sub(hn::LoadU(d, scores), top));
    if (head.code != nullptr) p = hn::Div(p, repetition(head, f.group, f.lanes, lane, j, range));
    sum = hn::Add(sum, p);
    hn::StoreU(p, d, scores);
  }
  hn::StoreU(top, d, f.max + lane);
  hn::StoreU(sum, d, f.sum + lane);
}

// Oᵀ = Vᵀ·Pᵀ with max and sum of one block of queries.
void block_output(const ChunkedHead& head, const ChunkBlock& b, const ChunkForward& f) {
  const GatheredGroup& g = f.group;
  const std::size_t d = head.q.cols;
  const std::size_t e = head.v.cols;
  const MeetingRange range = meeting_range(head);
  for_each_group(tile_width(b.lanes), [&](std::size_t column, auto vectors) HWY_ATTR {
    constexpr int kVectors = vectors();
    constexpr std::size_t kWidth = kVectors * kVectorLanes;
    const Slots s = visible_slots(head, b, column, kWidth, g, f.lanes);
    tile_gemm_group<kVectors>({g.k + s.first * tile_pitch(d), tile_pitch(d)}, {f.qt, kPitch},
                              s.count(), d, {f.scores, kPitch}, column);
    for (std::size_t lane = column; lane < column + kWidth; lane += kVectorLanes) {
      chunk_softmax(head, f, lane, s, range);
    }
    tile_gemm_group<kVectors>({g.v + s.first * tile_pitch(e), tile_pitch(e), true},
                              {f.scores, kPitch}, e, s.count(), {f.o, kPitch}, column);
  });
}

// The factors of what the token has and of what the round brings, and the token's new max and sum.
void merge_factors(const ChunkBlock& b, bool first, const ChunkForward& f,
                   const ChunkState& state) {
  const DF d;
  const auto token = [&](std::size_t i) {
    return static_cast<std::size_t>(f.group.token[b.slot + i]);
  };
  for (std::size_t i = 0; i < b.lanes; ++i) {
    f.keep[i] = first ? std::numeric_limits<float>::lowest() : state.max[token(i)];
    f.before[i] = first ? 0.0F : state.sum[token(i)];
  }
  for (std::size_t lane = 0; lane < b.lanes; lane += kVectorLanes) {
    const VF old = hn::LoadU(d, f.keep + lane);
    const VF here = hn::LoadU(d, f.max + lane);
    const VF top = hn::Max(old, here);
    const VF keep = exp2_nonpositive(d, hn::Sub(old, top));
    const VF take = exp2_nonpositive(d, hn::Sub(here, top));
    const VF brought = hn::Mul(take, hn::LoadU(d, f.sum + lane));
    hn::StoreU(hn::MulAdd(keep, hn::LoadU(d, f.before + lane), brought), d, f.sum + lane);
    hn::StoreU(top, d, f.max + lane);
    hn::StoreU(keep, d, f.keep + lane);
    hn::StoreU(take, d, f.take + lane);
  }
  for (std::size_t i = 0; i < b.lanes; ++i) {
    state.max[token(i)] = f.max[i];
    state.sum[token(i)] = f.sum[i];
  }
}

// y = keep·y + rows.
HWY_INLINE void add_row(const float* HWY_RESTRICT row, float keep, std::size_t e,
                        float* HWY_RESTRICT y) {
  const DF d;
  const VF k = hn::Set(d, keep);
  std::size_t c = 0;
  for (; c + kVectorLanes <= e; c += kVectorLanes) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, y + c), k, hn::LoadU(d, row + c)), d, y + c);
  }
  for (; c < e; ++c) y[c] = keep * y[c] + row[c];
}

// The round's part of a block joins its tokens' sums.
void merge_block(const ChunkedHead& head, const ChunkBlock& b, std::size_t round,
                 const ChunkForward& f, const ChunkState& state) {
  const DF d;
  const std::size_t e = head.v.cols;
  const bool first = round == 0;
  merge_factors(b, first, f, state);
  if (round + 1 == head.layout.rounds) {
    for (std::size_t i = 0; i < b.lanes; ++i) {
      const float inverse = f.sum[i] == 0.0F ? 0.0F : 1.0F / f.sum[i];
      f.keep[i] *= inverse;
      f.take[i] *= inverse;
    }
  }
  for (std::size_t c = 0; c < e; ++c) {
    float* o = f.o + c * kPitch;
    for (std::size_t lane = 0; lane < b.lanes; lane += kVectorLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, o + lane), hn::LoadU(d, f.take + lane)), d, o + lane);
    }
  }
  transpose<false>(f.o, kPitch, e, b.lanes, 1.0F, f.rows, tile_pitch(e));
  for (std::size_t i = 0; i < b.lanes; ++i) {
    float* y = state.y.row_data(static_cast<std::size_t>(f.group.token[b.slot + i]));
    const float* row = f.rows + i * tile_pitch(e);
    if (first) {
      std::copy_n(row, e, y);
    } else {
      add_row(row, f.keep[i], e, y);
    }
  }
}

// L, and y = v of the tokens that saw nobody: the whole weight is on themselves, unless their
// score is none.
void finish_tokens(const ChunkedHead& head, const ChunkBlock& b, const ChunkForward& f,
                   const ChunkState& state) {
  for (std::size_t i = 0; i < b.lanes; ++i) {
    const auto token = static_cast<std::size_t>(f.group.token[b.slot + i]);
    if (f.sum[i] != 0.0F) {
      state.max[token] = f.max[i] + std::log2(f.sum[i]);
      continue;
    }
    state.max[token] = std::numeric_limits<float>::infinity();
    if (head.sees_self) continue;
    const float whole = 1.0F + 0.0F * head.factor[token];
    const auto v = head.v.row(token);
    std::ranges::transform(v, state.y.row_data(token), [whole](float x) { return whole * x; });
  }
}

}  // namespace

void ChunkForwardGroup(const ChunkedHead& head, std::size_t round, std::size_t group,
                       const ChunkState& state, const ChunkForward& f, ChunkCounts& counts) {
  const std::size_t d = head.q.cols;
  for_each_block(head, round, group, f.group, counts, [&](const ChunkBlock& b) HWY_ATTR {
    const Right q = query_rows(head, b, f.group, f.q);
    pack_queries(ConstMatrix(q.data, b.lanes, d, q.stride), 1.0F, f.qt);
    prepare_lanes(head, b, round, f.group, f.lanes);
    block_output(head, b, f);
    merge_block(head, b, round, f, state);
    if (round + 1 == head.layout.rounds) finish_tokens(head, b, f, state);
  });
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(ChunkForwardGroup);

ChunkScratch chunk_forward_scratch(const ChunkLayout& layout, std::size_t d, std::size_t e) {
  Parts<float> floats(nullptr);
  Parts<std::int32_t> integers(nullptr);
  const ChunkForward parts(layout, d, e, floats, integers);
  return {floats.used(), integers.used()};
}

void chunk_forward(const ChunkedHead& head, std::size_t round, std::size_t group,
                   const ChunkState& state, float* floats, std::int32_t* integers,
                   ChunkCounts& counts) {
  Parts<float> f(floats);
  Parts<std::int32_t> i(integers);
  const ChunkForward parts(head.layout, head.q.cols, head.v.cols, f, i);
  HWY_DYNAMIC_DISPATCH(ChunkForwardGroup)(head, round, group, state, parts, counts);
}

}  // namespace longspan
#endif  // HWY_ONCE
