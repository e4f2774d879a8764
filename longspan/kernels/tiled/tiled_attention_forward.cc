#include "longspan/base/integers.h"
#include "longspan/kernels/tiled/tiled_attention.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/tiled/tiled_attention_forward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/tiled/tiled_attention-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {

struct ForwardScratch {
  float* scores;  // [kKeyBlock][kPitch]
  float* factor;  // c
  float* keys;    // [kKeyBlock][tile_pitch(d)]
  float* values;  // [kKeyBlock][tile_pitch(e)]
  float* states;
};

constexpr std::size_t state_floats(std::size_t d, std::size_t e) { return (d + e + 2) * kPitch; }

ForwardScratch divide(float* scratch, std::size_t d, std::size_t e) {
  ForwardScratch s;
  s.scores = scratch;
  s.factor = s.scores + kKeyBlock * kPitch;
  s.keys = s.factor + kPitch;
  s.values = s.keys + kKeyBlock * tile_pitch(d);
  s.states = s.values + kKeyBlock * tile_pitch(e);
  return s;
}

QueryState state_of(const ForwardScratch& s, std::size_t d, std::size_t e, std::size_t block) {
  QueryState state;
  state.q = s.states + block * state_floats(d, e);
  state.o = state.q + d * kPitch;
  state.max = state.o + e * kPitch;
  state.sum = state.max + kPitch;
  return state;
}

// One block of queries against one tile of keys.
void forward_tile(const TiledHead& head, const Tile& t, Left keys, Left values,
                  const QueryState& state, const ForwardScratch& scratch, TileCounts& counts) {
  const std::size_t width = tile_width(t.lanes);
  float* s = scratch.scores;
  for_each_group(width, [&](std::size_t column, auto vectors) HWY_ATTR {
    constexpr int kVectors = vectors();
    const std::size_t rows = group_keys<kVectors>(head, t, column);
    if (rows == 0) return;
    tile_gemm_group<kVectors>(keys, {state.q, kPitch}, rows, head.q.cols, {s, kPitch}, column);
    mask_scores<kVectors>(head, t, rows, column, s);
    online_softmax<kVectors>(s + column, rows, state.max + column, state.sum + column,
                             scratch.factor + column);
    if (head.dropout.active()) {
      for_each_dropout<kVectors>(head, t, rows, column, [s](std::size_t at, VF f) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::LoadU(DF(), s + at), f), DF(), s + at);
      });
    }
    count_tile(head, t, column, column + kVectors * kVectorLanes, counts);
  });
  const Left transposed{values.data, values.stride, true};
  for_each_group(width, [&](std::size_t column, auto vectors) HWY_ATTR {
    constexpr int kVectors = vectors();
    const std::size_t depth = group_keys<kVectors>(head, t, column);
    if (depth == 0) return;
    tile_gemm_group<kVectors>(transposed, {s, kPitch}, head.v.cols, depth,
                              {state.o, kPitch, Start::kScale, scratch.factor}, column);
  });
}

}  // namespace

void ForwardBlocks(const TiledHead& head, std::size_t first, std::size_t count, Matrix y,
                   float* lse, float* memory, TileCounts& counts) {
  const std::size_t d = head.q.cols;
  const std::size_t e = head.v.cols;
  const ForwardScratch scratch = divide(memory, d, e);
  const std::size_t blocks = divide_up(count, kQueryBlock);
  auto tile_at = [&](std::size_t block, std::size_t key) {
    const std::size_t query = first + block * kQueryBlock;
    return Tile{query, std::min(kQueryBlock, first + count - query), key,
                std::min(kKeyBlock, head.keys - std::min(key, head.keys))};
  };
  for (std::size_t b = 0; b < blocks; ++b) {
    const Tile t = tile_at(b, 0);
    begin_state(head.q.slice_rows(t.query, t.lanes), head.scale, e, state_of(scratch, d, e, b),
                head.sink);
  }
  const std::size_t end = head.end(first + count - 1);
  const std::size_t begin = head.begin(first) / kKeyBlock * kKeyBlock;
  for (std::size_t key = begin; key < end; key += kKeyBlock) {
    const std::size_t rows = tile_at(0, key).keys;
    const Left keys = dense_rows(head.k, key, rows, scratch.keys);
    const Left values = dense_rows(head.v, key, rows, scratch.values);
    for (std::size_t b = 0; b < blocks; ++b) {
      const Tile t = tile_at(b, key);
      prefetch_rows<kKeyBlock>(head.k, key + kKeyBlock, b, blocks);
      prefetch_rows<kKeyBlock>(head.v, key + kKeyBlock, b, blocks);
      if (!meets(head, t)) continue;
      forward_tile(head, t, keys, values, state_of(scratch, d, e, b), scratch, counts);
    }
  }
  for (std::size_t b = 0; b < blocks; ++b) {
    const Tile t = tile_at(b, 0);
    finish_state(state_of(scratch, d, e, b), y.slice_rows(t.query, t.lanes),
                 lse == nullptr ? nullptr : lse + t.query);
    counts.queries += t.lanes;
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(ForwardBlocks);

std::size_t tiled_forward_scratch(std::size_t d, std::size_t e) {
  const std::size_t pitch = tile_pitch(kQueryBlock);
  return (kKeyBlock + 1) * pitch + kKeyBlock * (tile_pitch(d) + tile_pitch(e)) +
         kQueryGroup * (d + e + 2) * pitch;
}

void tiled_forward(const TiledHead& head, std::size_t first, std::size_t count, Matrix y,
                   float* lse, float* scratch, TileCounts& counts) {
  HWY_DYNAMIC_DISPATCH(ForwardBlocks)(head, first, count, y, lse, scratch, counts);
}

}  // namespace longspan
#endif  // HWY_ONCE
