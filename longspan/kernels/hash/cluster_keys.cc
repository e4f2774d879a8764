#include "longspan/kernels/hash/cluster_keys.h"

#include <algorithm>
#include <limits>

#include "longspan/kernels/tiled/tiled_attention.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/hash/cluster_keys.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/tiled/tiled_attention-inl.h"
// clang-format on

#ifndef LONGSPAN_KERNELS_CLUSTER_KEYS_CC_
#define LONGSPAN_KERNELS_CLUSTER_KEYS_CC_
namespace longspan {

// A heap whose root is the worst of its entries: the lowest value, of equals the last index.
struct KeyHeap {
  float* value;
  std::int32_t* index;
  std::size_t size;

  bool worse(std::size_t a, std::size_t b) const {
    return value[a] < value[b] || (value[a] == value[b] && index[a] > index[b]);
  }
  void replace_root(float v, std::int32_t i) const {
    value[0] = v;
    index[0] = i;
    std::size_t at = 0;
    for (std::size_t child = 1; child < size; child = 2 * at + 1) {
      if (child + 1 < size && worse(child + 1, child)) ++child;
      if (!worse(child, at)) return;
      std::swap(value[child], value[at]);
      std::swap(index[child], index[at]);
      at = child;
    }
  }
};

}  // namespace longspan
#endif

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {

// Offers the scores of `rows` keys from `key` on to the heaps of a vector of queries.
void offer(const float* scores, std::size_t rows, std::size_t key, std::size_t lane,
           std::size_t lanes, float* least, float* values, std::int32_t* indices, std::size_t k) {
  const DF d;
  VF bound = hn::LoadU(d, least + lane);
  for (std::size_t j = 0; j < rows; ++j) {
    const float* s = scores + j * kPitch + lane;
    if (hn::AllFalse(d, hn::Gt(hn::LoadU(d, s), bound))) continue;
    for (std::size_t i = 0; i < std::min(kVectorLanes, lanes - lane); ++i) {
      if (!(s[i] > least[lane + i])) continue;
      const KeyHeap heap{values + (lane + i) * k, indices + (lane + i) * k, k};
      heap.replace_root(s[i], static_cast<std::int32_t>(key + j));
      least[lane + i] = heap.value[0];
    }
    bound = hn::LoadU(d, least + lane);
  }
}

}  // namespace

void TopKeys(ConstMatrix q, ConstMatrix keys, std::size_t k, std::int32_t* to, float* floats,
             std::int32_t* indices) {
  const std::size_t d = q.cols;
  float* qt = floats;
  float* scores = qt + d * kPitch;
  float* copy = scores + kKeyBlock * kPitch;
  float* least = copy + kKeyBlock * tile_pitch(d);
  float* values = least + kPitch;
  for (std::size_t first = 0; first < q.rows; first += kQueryBlock) {
    const std::size_t lanes = std::min(kQueryBlock, q.rows - first);
    const std::size_t width = tile_width(lanes);
    pack_queries(q.slice_rows(first, lanes), 1.0F, qt);
    std::fill_n(least, kPitch, kMinusInfinity);
    std::fill_n(values, lanes * k, kMinusInfinity);
    std::fill_n(indices, lanes * k, std::numeric_limits<std::int32_t>::max());
    for (std::size_t key = 0; key < keys.rows; key += kKeyBlock) {
      const std::size_t rows = std::min(kKeyBlock, keys.rows - key);
      tile_gemm(dense_rows(keys, key, rows, copy), {qt, kPitch}, rows, d, width, {scores, kPitch});
      for (std::size_t lane = 0; lane < lanes; lane += kVectorLanes) {
        offer(scores, rows, key, lane, lanes, least, values, indices, k);
      }
    }
    for (std::size_t i = 0; i < lanes; ++i) {
      std::int32_t* mine = indices + i * k;
      std::sort(mine, mine + k);
      // Scores that are no numbers leave places empty: any keys do then.
      for (std::size_t t = 0; t < k; ++t) {
        const bool empty = mine[t] == std::numeric_limits<std::int32_t>::max();
        to[(first + i) * k + t] = empty ? static_cast<std::int32_t>(t) : mine[t];
      }
    }
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(TopKeys);

std::size_t top_keys_floats(std::size_t d, std::size_t k) {
  const std::size_t pitch = tile_pitch(kQueryBlock);
  return d * pitch + kKeyBlock * (pitch + tile_pitch(d)) + pitch + kQueryBlock * k;
}

std::size_t top_keys_integers(std::size_t k) { return kQueryBlock * k; }

void top_keys(ConstMatrix q, ConstMatrix keys, std::size_t k, std::int32_t* to, float* floats,
              std::int32_t* integers) {
  HWY_DYNAMIC_DISPATCH(TopKeys)(q, keys, k, to, floats, integers);
}

}  // namespace longspan
#endif  // HWY_ONCE
