#include <cmath>

#include "longspan/kernels/feature/feature_attention.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/feature/feature_attention_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/feature/feature_attention-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {

// A line of `count` numbers, `fill` in the lanes behind them.
float* line_of(const float* from, std::size_t count, float fill, float* line) {
  std::copy_n(from, count, line);
  std::fill(line + count, line + tile_width(count), fill);
  return line;
}

// s.query = φ̄(q) = 2^(u + c − L), or φ(q) of plain kinds.
void query_again(const FeatureMap& map, const FeatureQueries& block, const FeatureSignal& signal,
                 const float* top, const FeatureScratch& s) {
  const std::size_t features = map.features(block.q.cols);
  const std::size_t width = tile_width(block.q.rows);
  project(map, block.q, s, s.query_x, s.query);
  if (!map.running()) {
    query_features(map, features, block.q.cols, block.q.rows, top, s, s.lines);
    return;
  }
  const float* level =
      line_of(signal.level, block.q.rows, std::numeric_limits<float>::infinity(), s.lines);
  exponentiate(features, width, top, level, s.query);
}

// Plain kinds: x[r][i] *= 1/den_i.
void divide_lanes(const FeatureMap& map, std::size_t rows, std::size_t count, const float* level,
                  const FeatureScratch& s, float* x) {
  if (map.running()) return;
  const float* inverse = line_of(level, count, 0.0F, s.lines + kFeaturePitch);
  for_rows(x, rows, tile_width(count), [&](std::size_t, std::size_t c, float* at) HWY_ATTR {
    store_lanes(hn::Mul(load_lanes(at), load_lanes(inverse + c)), at);
  });
}

// R += Σ_i φ̄(q_i)·g_iᵀ, w −= Σ_i φ̄(q_i)·δ_i; φ̄ in s.query, g in s.signal, δ in `delta`.
void collect(std::size_t features, std::size_t count, std::size_t e, const float* delta,
             const FeatureScratch& s, const FeatureState& sums) {
  const std::size_t pitch = tile_pitch(e);
  product({s.query, kFeaturePitch}, {s.signal, pitch}, features, count, tile_width(e),
          {sums.moment, pitch, Start::kAdd});
  for (std::size_t m = 0; m < features; ++m) {
    VF sum = hn::Zero(DF());
    for (std::size_t c = 0; c < tile_width(count); c += kVectorLanes) {
      sum = hn::MulAdd(load_lanes(s.query + m * kFeaturePitch + c), load_lanes(delta + c), sum);
    }
    sums.sum[m] -= sum_of(sum);
  }
}

// s.slope += Σ_{j ≤ i} G_ij·φ(k_j).
void add_pairs(const FeatureQueries& block, const FeatureSizes& z, const float* delta,
               const FeatureScratch& s) {
  for_each_group(tile_width(block.q.rows), [&](std::size_t column, auto vectors) HWY_ATTR {
    constexpr int kVectors = vectors();
    const std::size_t rows = group_visible<kVectors>(block, column);
    if (rows == 0) return;
    tile_gemm_group<kVectors>({s.value, tile_pitch(z.e)}, {s.signal_t, kFeaturePitch}, rows, z.e,
                              {s.pairs, kFeaturePitch}, column);
    for (std::size_t j = 0; j < rows; ++j) {
      for (std::size_t c = column; c < column + kVectors * kVectorLanes; c += kVectorLanes) {
        float* at = s.pairs + j * kFeaturePitch + c;
        store_lanes(hn::Sub(load_lanes(at), load_lanes(delta + c)), at);
      }
    }
    hide_later<kVectors>(block, rows, column, s.pairs);
    tile_gemm_group<kVectors>({s.keys, kFeaturePitch}, {s.pairs, kFeaturePitch}, z.features, rows,
                              {s.slope, kFeaturePitch, Start::kAdd}, column);
  });
}

// pairs[i][j] = 0 where query i must not see the key in lane j, for i ≥ first.
template <int kVectors>
HWY_INLINE void hide_keys(const FeatureQueries& block, std::size_t first, std::size_t column,
                          float* pairs) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  for (std::size_t c = column; c < column + kVectors * kVectorLanes; c += kVectorLanes) {
    const auto key = hn::Iota(di, static_cast<std::int32_t>(c));
    for (std::size_t i = first; i < block.q.rows && block.visible(i) < c + kVectorLanes; ++i) {
      const auto sees = hn::Lt(key, hn::Set(di, static_cast<std::int32_t>(block.visible(i))));
      float* at = pairs + i * kFeaturePitch + c;
      store_lanes(hn::IfThenElseZero(hn::RebindMask(d, sees), load_lanes(at)), at);
    }
  }
}

// s.key_slope += Σ_{i ≥ j} G_ij·φ̄(q_i) and s.dvalue_t += Σ_{i ≥ j} W̄_ij·g_i, keys in the lanes.
void add_key_pairs(const FeatureQueries& block, const FeatureSizes& z, const float* delta,
                   const FeatureScratch& s) {
  const DF d;
  const std::size_t pitch = tile_pitch(z.e);
  for_each_group(tile_width(block.keys), [&](std::size_t column, auto vectors) HWY_ATTR {
    constexpr int kVectors = vectors();
    // Queries before this one see none of these keys.
    const std::size_t first = column + 1 > block.seen ? column + 1 - block.seen : 0;
    if (first >= block.q.rows) return;
    const std::size_t rows = block.q.rows - first;
    float* pairs = s.pairs + first * kFeaturePitch;
    tile_gemm_group<kVectors>({s.signal + first * pitch, pitch}, {s.value_t, kFeaturePitch}, rows,
                              z.e, {pairs, kFeaturePitch}, column);
    for (std::size_t i = 0; i < rows; ++i) {
      const VF minus = hn::Set(d, delta[first + i]);
      for (std::size_t c = column; c < column + kVectors * kVectorLanes; c += kVectorLanes) {
        float* at = pairs + i * kFeaturePitch + c;
        store_lanes(hn::Sub(load_lanes(at), minus), at);
      }
    }
    hide_keys<kVectors>(block, first, column, s.pairs);
    tile_gemm_group<kVectors>({s.query + first, kFeaturePitch}, {pairs, kFeaturePitch}, z.features,
                              rows, {s.key_slope, kFeaturePitch, Start::kAdd}, column);
    tile_gemm_group<kVectors>({s.query + first, kFeaturePitch, true}, {s.keys, kFeaturePitch}, rows,
                              z.features, {pairs, kFeaturePitch}, column);
    hide_keys<kVectors>(block, first, column, s.pairs);
    tile_gemm_group<kVectors>({s.signal + first * pitch, pitch, true}, {pairs, kFeaturePitch}, z.e,
                              rows, {s.dvalue_t, kFeaturePitch, Start::kAdd}, column);
  });
}

// Calls use(i, j, m, G_ij, φ̄_m(q_i)·φ_m(k_j)) for every query of a block, key that it sees and
// feature, from the logarithms in s; value(j, c) is v.
template <class Value, class Use>
HWY_INLINE void for_each_pair(const FeatureQueries& block, const FeatureSignal& signal,
                              const FeatureSizes& z, const FeatureScratch& s, const Value& value,
                              const Use& use) {
  for (std::size_t i = 0; i < block.q.rows; ++i) {
    const float* g = signal.dy.row_data(i);
    for (std::size_t j = 0; j < block.visible(i); ++j) {
      float gain = -signal.delta[i];
      for (std::size_t c = 0; c < z.e; ++c) gain += g[c] * value(j, c);
      for (std::size_t m = 0; m < z.features; ++m) {
        const float u = s.query[m * kFeaturePitch + i] + s.keys[m * kFeaturePitch + j];
        use(i, j, m, gain, std::exp2(u - signal.level[i]));
      }
    }
  }
}

// s.slope += ∂L/∂u of the queries from pairs that are taken one by one; s.keys is φ(k) again then.
HWY_NOINLINE void add_far_pairs(const FeatureMap& map, const FeatureQueries& block,
                                const FeatureSizes& z, const FeatureSignal& signal, float* top,
                                const FeatureScratch& s) {
  block_logarithms(map, block, s);
  const auto value = [&](std::size_t j, std::size_t c) { return s.value[j * tile_pitch(z.e) + c]; };
  for_each_pair(block, signal, z, s, value,
                [&](std::size_t i, std::size_t, std::size_t m, float gain, float pair) {
                  s.slope[m * kFeaturePitch + i] += gain * pair;
                });
  key_features(map, block.k, 0.0F, top, false, s);
}

// to[r][i] += weight[r]·(factor[i], or 1).
void add_outer(std::size_t rows, std::size_t width, float sign, const float* weight,
               const float* factor, float* to) {
  const DF d;
  for_rows(to, rows, width, [&](std::size_t r, std::size_t c, float* at) HWY_ATTR {
    const VF f = factor == nullptr ? hn::Set(d, 1.0F) : load_lanes(factor + c);
    store_lanes(hn::MulAdd(hn::Set(d, sign * weight[r]), f, load_lanes(at)), at);
  });
}

}  // namespace

void FeatureQueryBackward(const FeatureMap& map, const FeatureQueries& block,
                          const FeatureSignal& signal, const FeatureState& state, Matrix dq,
                          const FeatureState* sums, float* memory) {
  const FeatureSizes z{block.q.cols, signal.dy.cols, map.features(block.q.cols)};
  const FeatureScratch s = divide_features(z, memory);
  const std::size_t count = block.q.rows;
  const std::size_t width = tile_width(count);
  prefetch_next(block.q, 0);
  query_again(map, block, signal, state.top, s);
  prefetch_next(block.q, 1);
  const float* delta = line_of(signal.delta, count, 0.0F, s.lines + 2 * kFeaturePitch);
  pack_tokens(signal.dy, 1.0F, s.signal_t);
  prefetch_next(signal.dy, 0);
  product({state.moment, tile_pitch(z.e)}, {s.signal_t, kFeaturePitch}, z.features, z.e, width,
          {s.slope, kFeaturePitch});
  add_outer(z.features, width, -1.0F, state.sum, delta, s.slope);
  const bool far = block.keys > 0 && some_cut_off(map, z.features, s);
  if (block.keys > 0 && !far) add_pairs(block, z, delta, s);
  divide_lanes(map, z.features, count, signal.level, s, s.slope);
  prefetch_next(signal.dy, 1);
  differentiate(map, z.features, width, s.query, s.slope);
  if (sums != nullptr) {
    divide_lanes(map, z.features, count, signal.level, s, s.query);
    copy_tokens(signal.dy, s.signal);
    collect(z.features, count, z.e, delta, s, *sums);
  }
  if (far) add_far_pairs(map, block, z, signal, state.top, s);
  const bool with_norm = map.kind == FeatureKind::kShifted;
  unproject(map, s, with_norm ? s.query_x : nullptr, s.slope, dq);
}

void FeatureKeyBackwardBegin(const FeatureMap& map, ConstMatrix k, ConstMatrix v, float shift,
                             float* top, const FeatureState& sums, float* memory) {
  const FeatureSizes z{k.cols, v.cols, map.features(k.cols)};
  const FeatureScratch s = divide_features(z, memory);
  const std::size_t width = tile_width(k.rows);
  const std::size_t pitch = tile_pitch(z.e);
  prefetch_next(k, 0);
  key_features(map, k, shift, top, false, s);
  prefetch_next(k, 1);
  pack_tokens(v, 1.0F, s.value_t);
  prefetch_next(v, 0);
  prefetch_next(v, 1);
  product({sums.moment, pitch}, {s.value_t, kFeaturePitch}, z.features, z.e, width,
          {s.key_slope, kFeaturePitch});
  add_outer(z.features, width, 1.0F, sums.sum, nullptr, s.key_slope);
  product({sums.moment, pitch, true}, {s.keys, kFeaturePitch}, z.e, z.features, width,
          {s.dvalue_t, kFeaturePitch});
}

void FeatureKeyBackwardAdd(const FeatureMap& map, const FeatureQueries& block,
                           const FeatureSignal& signal, const float* top, const FeatureState& sums,
                           std::size_t e, float* memory) {
  const FeatureSizes z{block.q.cols, e, map.features(block.q.cols)};
  const FeatureScratch s = divide_features(z, memory);
  query_again(map, block, signal, top, s);
  divide_lanes(map, z.features, block.q.rows, signal.level, s, s.query);
  const float* delta = line_of(signal.delta, block.q.rows, 0.0F, s.lines + 2 * kFeaturePitch);
  copy_tokens(signal.dy, s.signal);
  if (block.keys > 0) add_key_pairs(block, z, delta, s);
  collect(z.features, block.q.rows, z.e, delta, s, sums);
}

void FeatureKeyBackwardSlopes(const FeatureMap& map, const FeatureSizes& z, std::size_t keys,
                              float* memory) {
  const FeatureScratch s = divide_features(z, memory);
  differentiate(map, z.features, tile_width(keys), s.keys, s.key_slope);
}

void FeatureKeyBackwardPairs(const FeatureMap& map, const FeatureQueries& block,
                             const FeatureSignal& signal, float* memory) {
  const FeatureSizes z{block.q.cols, signal.dy.cols, map.features(block.q.cols)};
  const FeatureScratch s = divide_features(z, memory);
  block_logarithms(map, block, s);
  const auto value = [&](std::size_t j, std::size_t c) { return s.value_t[c * kFeaturePitch + j]; };
  for_each_pair(block, signal, z, s, value,
                [&](std::size_t i, std::size_t j, std::size_t m, float gain, float pair) {
                  s.key_slope[m * kFeaturePitch + j] += gain * pair;
                  const float* g = signal.dy.row_data(i);
                  for (std::size_t c = 0; c < z.e; ++c) {
                    s.dvalue_t[c * kFeaturePitch + j] += pair * g[c];
                  }
                });
}

bool FeatureCutOff(const FeatureMap& map, const FeatureSizes& z, ConstMatrix k, float* top,
                   float* memory) {
  const FeatureScratch s = divide_features(z, memory);
  key_features(map, k, 0.0F, top, false, s);
  return some_cut_off(map, z.features, s);
}

void FeatureKeyBackwardFinish(const FeatureMap& map, Matrix dk, Matrix dv, float* memory) {
  const FeatureSizes z{dk.cols, dv.cols, map.features(dk.cols)};
  const FeatureScratch s = divide_features(z, memory);
  unpack_tokens(s.dvalue_t, 1.0F, dv);
  unproject(map, s, map.subtracts_norm() ? s.key_x : nullptr, s.key_slope, dk);
}

void FeatureLower(const FeatureSizes& z, const float* before, const float* after,
                  const FeatureState& sums) {
  for (std::size_t m = 0; m < z.features; ++m) {
    if (before[m] == after[m]) continue;
    const float factor = std::exp2(before[m] - after[m]);
    sums.sum[m] *= factor;
    scale_row(factor, tile_width(z.e), sums.moment + m * tile_pitch(z.e));
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(FeatureQueryBackward);
HWY_EXPORT(FeatureKeyBackwardBegin);
HWY_EXPORT(FeatureKeyBackwardAdd);
HWY_EXPORT(FeatureKeyBackwardSlopes);
HWY_EXPORT(FeatureKeyBackwardFinish);
HWY_EXPORT(FeatureCutOff);
HWY_EXPORT(FeatureKeyBackwardPairs);
HWY_EXPORT(FeatureLower);

std::size_t feature_backward_scratch(const FeatureSizes& z) {
  const std::size_t rows = 2 * z.features + 3 * z.e + FeatureProjection::padded(z.d);
  return feature_forward_scratch(z) + rows * tile_pitch(kFeatureBlock) +
         kFeatureBlock * tile_pitch(z.e);
}

void feature_query_backward(const FeatureMap& map, const FeatureQueries& block,
                            const FeatureSignal& signal, const FeatureState& state, Matrix dq,
                            const FeatureState* sums, float* scratch) {
  HWY_DYNAMIC_DISPATCH(FeatureQueryBackward)(map, block, signal, state, dq, sums, scratch);
}

void feature_key_backward_begin(const FeatureMap& map, ConstMatrix k, ConstMatrix v, float shift,
                                float* top, const FeatureState& sums, float* scratch) {
  HWY_DYNAMIC_DISPATCH(FeatureKeyBackwardBegin)(map, k, v, shift, top, sums, scratch);
}

void feature_key_backward_add(const FeatureMap& map, const FeatureQueries& block,
                              const FeatureSignal& signal, const float* top,
                              const FeatureState& sums, std::size_t e, float* scratch) {
  HWY_DYNAMIC_DISPATCH(FeatureKeyBackwardAdd)(map, block, signal, top, sums, e, scratch);
}

void feature_key_backward_slopes(const FeatureMap& map, const FeatureSizes& sizes, std::size_t keys,
                                 float* scratch) {
  HWY_DYNAMIC_DISPATCH(FeatureKeyBackwardSlopes)(map, sizes, keys, scratch);
}

void feature_key_backward_finish(const FeatureMap& map, Matrix dk, Matrix dv, float* scratch) {
  HWY_DYNAMIC_DISPATCH(FeatureKeyBackwardFinish)(map, dk, dv, scratch);
}

bool feature_cut_off(const FeatureMap& map, const FeatureSizes& sizes, ConstMatrix k, float* top,
                     float* scratch) {
  return HWY_DYNAMIC_DISPATCH(FeatureCutOff)(map, sizes, k, top, scratch);
}

void feature_key_backward_pairs(const FeatureMap& map, const FeatureQueries& block,
                                const FeatureSignal& signal, float* scratch) {
  HWY_DYNAMIC_DISPATCH(FeatureKeyBackwardPairs)(map, block, signal, scratch);
}

void feature_lower(const FeatureSizes& sizes, const float* before, const float* after,
                   const FeatureState& sums) {
  HWY_DYNAMIC_DISPATCH(FeatureLower)(sizes, before, after, sums);
}

}  // namespace longspan
#endif  // HWY_ONCE
