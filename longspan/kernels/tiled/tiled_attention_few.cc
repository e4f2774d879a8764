// Forward for a few queries, as when decoding: a tile of 64 lanes would be mostly padding, so here
// the lanes run along the width of keys and values. The steps, and what they count, are the same.

#include <cmath>

#include "longspan/kernels/tiled/tiled_attention.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/tiled/tiled_attention_few.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/tiled/tiled_attention-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {

// The running state of one query.
struct FewState {
  float* q;  // scaled by s·log₂e
  float* o;
  float max;
  float sum;
};

// s[j] = q·k_j for four keys, whose sums overlap.
HWY_INLINE void dot_four(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k,
                         std::size_t stride, std::size_t width, float* HWY_RESTRICT s) {
  const DF d;
  VF a0 = hn::Zero(d);
  VF a1 = a0;
  VF a2 = a0;
  VF a3 = a0;
  std::size_t c = 0;
  for (; c + kVectorLanes <= width; c += kVectorLanes) {
    const VF x = hn::LoadU(d, q + c);
    a0 = hn::MulAdd(x, hn::LoadU(d, k + c), a0);
    a1 = hn::MulAdd(x, hn::LoadU(d, k + stride + c), a1);
    a2 = hn::MulAdd(x, hn::LoadU(d, k + 2 * stride + c), a2);
    a3 = hn::MulAdd(x, hn::LoadU(d, k + 3 * stride + c), a3);
  }
  s[0] = hn::GetLane(hn::SumOfLanes(d, a0));
  s[1] = hn::GetLane(hn::SumOfLanes(d, a1));
  s[2] = hn::GetLane(hn::SumOfLanes(d, a2));
  s[3] = hn::GetLane(hn::SumOfLanes(d, a3));
  for (; c < width; ++c) {
    for (std::size_t j = 0; j < 4; ++j) s[j] += q[c] * k[j * stride + c];
  }
}

HWY_INLINE float dot_one(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k,
                         std::size_t width) {
  const DF d;
  VF a = hn::Zero(d);
  std::size_t c = 0;
  for (; c + kVectorLanes <= width; c += kVectorLanes) {
    a = hn::MulAdd(hn::LoadU(d, q + c), hn::LoadU(d, k + c), a);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, a));
  for (; c < width; ++c) sum += q[c] * k[c];
  return sum;
}

// o = c·o + Σ_j p_j·v_j, four vectors of columns at a time.
HWY_INLINE void weighted_sum(const float* HWY_RESTRICT p, ConstMatrix v, float factor,
                             float* HWY_RESTRICT o) {
  const DF d;
  const VF f = hn::Set(d, factor);
  std::size_t c = 0;
  for (; c + 4 * kVectorLanes <= v.cols; c += 4 * kVectorLanes) {
    Row<4> sum = load_row<4>(o + c);
    sum.v0 = hn::Mul(sum.v0, f);
    sum.v1 = hn::Mul(sum.v1, f);
    sum.v2 = hn::Mul(sum.v2, f);
    sum.v3 = hn::Mul(sum.v3, f);
    for (std::size_t j = 0; j < v.rows; ++j) {
      add_product<4>(p + j, load_row<4>(v.row_data(j) + c), sum);
    }
    store_row<4>(sum, o + c);
  }
  for (; c + kVectorLanes <= v.cols; c += kVectorLanes) {
    VF sum = hn::Mul(hn::LoadU(d, o + c), f);
    for (std::size_t j = 0; j < v.rows; ++j) {
      sum = hn::MulAdd(hn::Set(d, p[j]), hn::LoadU(d, v.row_data(j) + c), sum);
    }
    hn::StoreU(sum, d, o + c);
  }
  for (; c < v.cols; ++c) {
    float sum = o[c] * factor;
    for (std::size_t j = 0; j < v.rows; ++j) sum += p[j] * v.row_data(j)[c];
    o[c] = sum;
  }
}

// S = c·tanh(S/c) of a tile.
HWY_INLINE void cap_few(float cap, std::size_t rows, float* s) {
  const DF d;
  const VF c = hn::Set(d, cap * kLog2E);
  const VF inverse = hn::Set(d, 1.0F / (cap * kLog2E));
  for (std::size_t j = 0; j < rows; j += kVectorLanes) {
    hn::StoreU(capped(hn::LoadU(d, s + j), c, inverse), d, s + j);
  }
}

// Scores of query i against the first `rows` keys of a tile; −∞ up to the end of the last vector.
void few_scores(const TiledHead& head, const float* q, std::size_t i, std::size_t key,
                std::size_t rows, float* s) {
  const std::size_t width = head.k.cols;
  std::size_t j = 0;
  for (; j + 4 <= rows; j += 4) {
    dot_four(q, head.k.row_data(key + j), head.k.stride, width, s + j);
  }
  for (; j < rows; ++j) s[j] = dot_one(q, head.k.row_data(key + j), width);
  if (head.bias != nullptr) {
    const float* bias = head.bias + i * head.bias_stride + key;
    for (j = 0; j < rows; ++j) s[j] += kLog2E * bias[j];
  }
  if (head.distances != nullptr) {
    const float* nearest = head.distances + static_cast<std::ptrdiff_t>(head.place(i)) -
                           static_cast<std::ptrdiff_t>(key);
    for (j = 0; j < rows; ++j) s[j] += *(nearest - static_cast<std::ptrdiff_t>(j));
  }
  if (head.cap > 0.0F) cap_few(head.cap, rows, s);
  if (head.visible != nullptr) {
    const std::uint8_t* visible = head.visible + i * head.visible_stride + key;
    for (j = 0; j < rows; ++j) s[j] = visible[j] != 0 ? s[j] : kMinusInfinity;
  }
  const std::size_t begin = head.begin(i);
  if (begin > key) std::fill(s, s + (begin - key), kMinusInfinity);
  std::fill(s + rows, s + kKeyBlock, kMinusInfinity);
}

// S becomes P; returns the correction c.
float few_softmax(float* s, std::size_t rows, FewState& state) {
  const DF d;
  VF top = hn::Set(d, state.max);
  for (std::size_t j = 0; j < rows; j += kVectorLanes) top = hn::Max(top, hn::LoadU(d, s + j));
  top = hn::MaxOfLanes(d, top);
  if (overflows(top)) {
    for (std::size_t j = 0; j < rows; j += kVectorLanes) {
      hn::StoreU(at_most(kMostScore, hn::LoadU(d, s + j)), d, s + j);
    }
    top = at_most(kMostScore, top);
  }
  const VF before = hn::Set(d, state.max);
  const float factor = hn::GetLane(exp2_nonpositive(d, hn::Sub(before, top)));
  VF sum = hn::Zero(d);
  for (std::size_t j = 0; j < rows; j += kVectorLanes) {
    const VF p = exp2_nonpositive(d, hn::Sub(hn::LoadU(d, s + j), top));
    sum = hn::Add(sum, p);
    hn::StoreU(p, d, s + j);
  }
  state.max = hn::GetLane(top);
  state.sum = state.sum * factor + hn::GetLane(hn::SumOfLanes(d, sum));
  return factor;
}

void few_tile(const TiledHead& head, std::size_t i, std::size_t key, FewState& state, float* s,
              TileCounts& counts) {
  const std::size_t end = head.end(i);
  const std::size_t first = std::max(head.begin(i), key);
  if (end <= first || first >= key + kKeyBlock) return;
  const std::size_t rows = std::min(kKeyBlock, end - key);
  few_scores(head, state.q, i, key, rows, s);
  const float factor = few_softmax(s, rows, state);
  if (head.dropout.active()) {
    for (std::size_t j = 0; j < rows; ++j) {
      s[j] *= head.dropout.factor(head.plane, static_cast<std::uint32_t>(i),
                                  static_cast<std::uint32_t>(key + j));
    }
  }
  weighted_sum(s, head.v.slice_rows(key, rows), factor, state.o);
  counts.pairs += rows - (first - key);
  counts.query_tiles += 1;
}

}  // namespace

void ForwardFew(const TiledHead& head, std::size_t first_key, Matrix y, float* lse, float* memory,
                TileCounts& counts) {
  const std::size_t width = head.q.cols;
  float* s = memory;
  FewState states[kFewQueries];
  for (std::size_t i = 0; i < head.q.rows; ++i) {
    states[i].q = s + kKeyBlock + i * (width + y.cols);
    states[i].o = states[i].q + width;
    for (std::size_t c = 0; c < width; ++c) {
      states[i].q[c] = head.scale * kLog2E * head.q.row_data(i)[c];
    }
    std::fill_n(states[i].o, y.cols, 0.0F);
    states[i].max = first_max(head.sink);
    states[i].sum = first_sum(head.sink);
  }
  const std::size_t begin = std::max(first_key, head.begin(0) / kKeyBlock * kKeyBlock);
  for (std::size_t key = begin; key < head.end(head.q.rows - 1); key += kKeyBlock) {
    for (std::size_t i = 0; i < head.q.rows; ++i) few_tile(head, i, key, states[i], s, counts);
  }
  for (std::size_t i = 0; i < head.q.rows; ++i) {
    const float sum = states[i].sum;
    const bool empty = sum == 0.0F;
    const float level =
        empty ? std::numeric_limits<float>::infinity() : states[i].max + std::log2(sum);
    if (lse != nullptr) lse[i] = level;
    const float inverse = empty ? 0.0F : 1.0F / sum;
    for (std::size_t c = 0; c < y.cols; ++c) y.row_data(i)[c] = states[i].o[c] * inverse;
  }
  counts.queries += head.q.rows;
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(ForwardFew);

void tiled_forward_few(const TiledHead& head, std::size_t first_key, Matrix y, float* lse,
                       float* scratch, TileCounts& counts) {
  HWY_DYNAMIC_DISPATCH(ForwardFew)(head, first_key, y, lse, scratch, counts);
}

}  // namespace longspan
#endif  // HWY_ONCE
