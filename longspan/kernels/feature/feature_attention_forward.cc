#include <cmath>

#include "longspan/kernels/feature/feature_attention.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/feature/feature_attention_forward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/feature/feature_attention-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {

// φ of keys again of which some lie so far above c that they were cut off: c rises to them first,
// and the state is scaled down. Those who read c before go on with what they have.
HWY_NOINLINE void rise_to(const FeatureMap& map, const FeatureSizes& z, ConstMatrix k,
                          const FeatureState& state, const FeatureScratch& s) {
  const std::size_t width = tile_width(k.rows);
  float* minus = s.lines;
  project(map, k, s, s.key_x, s.keys);
  std::fill(minus, minus + width, 0.0F);
  if (map.subtracts_norm()) half_norms(s.key_x, k.cols, width, minus);
  for (std::size_t m = 0; m < z.features; ++m) {
    const float* row = s.keys + m * kFeaturePitch;
    float most = state.top[m];
    for (std::size_t j = 0; j < k.rows; ++j) most = std::max(most, row[j] - minus[j]);
    if (s.rise[m] < kMostRise || !std::isfinite(most)) continue;
    const float factor = std::exp2(state.top[m] - most);
    state.top[m] = most;
    state.sum[m] *= factor;
    scale_row(factor, tile_width(z.e), state.moment + m * tile_pitch(z.e));
  }
  key_features(map, k, 0.0F, state.top, false, s);
}

// a + log₂ den, rounded up where it rounds by more than 1: weights relative to it are at most 1.
float level_of(float top, float more) {
  const float level = top + more;
  if (level - top > more - 1.0F) return level;
  return std::nextafter(level, std::numeric_limits<float>::infinity());
}

// y and L of query i from logarithms: u of the queries in s.query, those of the keys in s.keys.
void read_pairs(const FeatureMap& map, const FeatureSizes& z, const FeatureState& state,
                std::size_t i, std::size_t visible, const FeatureScratch& s, std::span<float> y,
                float* level) {
  const auto u = [&](std::size_t m) { return s.query[m * kFeaturePitch + i]; };
  float most = std::numeric_limits<float>::lowest();
  for (std::size_t m = 0; m < z.features; ++m) {
    const float* key = s.keys + m * kFeaturePitch;
    const float top = *std::max_element(key, key + visible);
    most = std::max(most, u(m) + (state.sum[m] > 0.0F ? std::max(top, state.top[m]) : top));
  }
  float* weight = s.pairs;
  float den = map.denominator_epsilon;
  std::fill_n(weight, visible, 0.0F);
  std::ranges::fill(y, 0.0F);
  for (std::size_t m = 0; m < z.features; ++m) {
    for (std::size_t j = 0; j < visible; ++j) {
      weight[j] += std::exp2(u(m) + s.keys[m * kFeaturePitch + j] - most);
    }
    if (state.sum[m] == 0.0F) continue;
    const float earlier = std::exp2(u(m) + state.top[m] - most);
    den += earlier * state.sum[m];
    for (std::size_t c = 0; c < z.e; ++c) {
      y[c] += earlier * state.moment[m * tile_pitch(z.e) + c];
    }
  }
  for (std::size_t j = 0; j < visible; ++j) {
    den += weight[j];
    for (std::size_t c = 0; c < z.e; ++c) y[c] += weight[j] * s.value[j * tile_pitch(z.e) + c];
  }
  for (float& x : y) x /= den;
  if (level != nullptr) level[i] = level_of(most, std::log2(den));
}

// The same of all queries that see a key which was cut off: what is far above c for them is not far
// above itself. Which they are depends on the keys that they see alone.
HWY_NOINLINE void read_far(const FeatureMap& map, const FeatureSizes& z,
                           const FeatureQueries& block, const FeatureState& state, Matrix y,
                           float* level, const FeatureScratch& s) {
  block_logarithms(map, block, s);
  std::size_t first = block.keys;
  for (std::size_t m = 0; m < z.features; ++m) {
    const float* row = s.keys + m * kFeaturePitch;
    const float* far = std::find_if(row, row + first,
                                    [top = state.top[m]](float u) { return u - top >= kMostRise; });
    first = static_cast<std::size_t>(far - row);
  }
  for (std::size_t i = 0; i < block.q.rows; ++i) {
    const std::size_t visible = block.visible(i);
    if (visible > first) read_pairs(map, z, state, i, visible, s, y.row(i), level);
  }
  key_features(map, block.k, 0.0F, state.top, false, s);
}

}  // namespace

void FeatureKeys(const FeatureMap& map, ConstMatrix k, ConstMatrix v, float shift, float* top,
                 bool fresh, float* memory) {
  const FeatureScratch s = divide_features({k.cols, v.cols, map.features(k.cols)}, memory);
  prefetch_next(k, 0);
  copy_tokens(v, s.value);
  prefetch_next(v, 0);
  key_features(map, k, shift, top, fresh, s);
  prefetch_next(k, 1);
  prefetch_next(v, 1);
}

float FeatureLargest(const FeatureMap& map, ConstMatrix k, const FeatureSizes& z, float* memory) {
  const FeatureScratch s = divide_features(z, memory);
  project(map, k, s, s.key_x, s.keys);
  float most = std::numeric_limits<float>::lowest();
  for (std::size_t m = 0; m < z.features; ++m) {
    const float* row = s.keys + m * kFeaturePitch;
    most = std::max(most, *std::max_element(row, row + k.rows));
  }
  return most;
}

void FeatureAbsorb(const FeatureMap& map, const FeatureSizes& z, ConstMatrix k,
                   const FeatureState& state, float* memory) {
  const FeatureScratch s = divide_features(z, memory);
  const std::size_t pitch = tile_pitch(z.e);
  if (some_cut_off(map, z.features, s)) rise_to(map, z, k, state, s);
  product({s.keys, kFeaturePitch}, {s.value, pitch}, z.features, k.rows, tile_width(z.e),
          {state.moment, pitch, Start::kAdd});
  for (std::size_t m = 0; m < z.features; ++m) state.sum[m] += s.weights[m];
  if (!map.running()) return;
  for (std::size_t m = 0; m < z.features; ++m) {
    if (s.rise[m] <= kSlack) continue;
    const float before = state.top[m];
    state.top[m] += s.rise[m];
    const float lift = state.top[m] - before;
    // So large that adding to it rounds by more than 1.
    const bool coarse = std::abs(lift - s.rise[m]) > 1.0F;
    const float factor = std::exp2(coarse ? -lift : -s.rise[m]);
    state.sum[m] *= factor;
    scale_row(factor, tile_width(z.e), state.moment + m * pitch);
  }
}

void FeatureRead(const FeatureMap& map, const FeatureQueries& block, const FeatureState& state,
                 Matrix y, float* level, float* memory) {
  const FeatureSizes z{block.q.cols, y.cols, map.features(block.q.cols)};
  const FeatureScratch s = divide_features(z, memory);
  const std::size_t count = block.q.rows;
  const std::size_t width = tile_width(count);
  float* top = s.lines;
  float* den = s.lines + kFeaturePitch;
  prefetch_next(block.q, 0);
  project(map, block.q, s, s.query_x, s.query);
  query_features(map, z.features, z.d, count, state.top, s, top);
  prefetch_next(block.q, 1);
  const std::size_t pitch = tile_pitch(z.e);
  product({state.moment, pitch, true}, {s.query, kFeaturePitch}, z.e, z.features, width,
          {s.out, kFeaturePitch});
  weigh_rows(s.query, state.sum, z.features, width, map.denominator_epsilon, den);
  if (block.keys > 0) {
    for_each_group(width, [&](std::size_t column, auto vectors) HWY_ATTR {
      constexpr int kVectors = vectors();
      const std::size_t rows = group_visible<kVectors>(block, column);
      if (rows == 0) return;
      tile_gemm_group<kVectors>({s.keys, kFeaturePitch, true}, {s.query, kFeaturePitch}, rows,
                                z.features, {s.pairs, kFeaturePitch}, column);
      hide_later<kVectors>(block, rows, column, s.pairs);
      for (std::size_t c = column; c < column + kVectors * kVectorLanes; c += kVectorLanes) {
        VF sum = load_lanes(den + c);
        for (std::size_t j = 0; j < rows; ++j) {
          sum = hn::Add(sum, load_lanes(s.pairs + j * kFeaturePitch + c));
        }
        store_lanes(sum, den + c);
      }
      tile_gemm_group<kVectors>({s.value, pitch, true}, {s.pairs, kFeaturePitch}, z.e, rows,
                                {s.out, kFeaturePitch, Start::kAdd}, column);
    });
  }
  float* inverse = s.lines + 2 * kFeaturePitch;
  for (std::size_t i = 0; i < width; ++i) {
    const bool none = i >= count || den[i] <= 0.0F;
    inverse[i] = none ? 0.0F : 1.0F / den[i];
    if (level == nullptr || i >= count) continue;
    level[i] = !map.running() ? inverse[i]
               : none         ? std::numeric_limits<float>::infinity()
                              : level_of(top[i], std::log2(den[i]));
  }
  for_rows(s.out, z.e, width, [&](std::size_t, std::size_t c, float* at) HWY_ATTR {
    store_lanes(hn::Mul(load_lanes(at), load_lanes(inverse + c)), at);
  });
  unpack_tokens(s.out, 1.0F, y);
  if (block.keys > 0 && some_cut_off(map, z.features, s)) {
    read_far(map, z, block, state, y, level, s);
  }
}

void FeatureMerge(const FeatureMap& map, const FeatureSizes& z, const FeatureState& more,
                  const FeatureState& state) {
  const std::size_t pitch = tile_pitch(z.e);
  const std::size_t width = tile_width(z.e);
  if (map.running() && more.empty()) return;
  const bool copies = map.running() && state.empty();
  for (std::size_t m = 0; m < z.features; ++m) {
    float mine = 1.0F;
    float theirs = 1.0F;
    if (copies) state.top[m] = more.top[m];
    if (map.running() && !copies) {
      const float top = std::max(state.top[m], more.top[m]);
      mine = std::exp2(state.top[m] - top);
      theirs = std::exp2(more.top[m] - top);
      state.top[m] = top;
    }
    state.sum[m] = mine * state.sum[m] + theirs * more.sum[m];
    float* to = state.moment + m * pitch;
    const float* from = more.moment + m * pitch;
    for (std::size_t c = 0; c < width; c += kVectorLanes) {
      const VF old = hn::Mul(load_lanes(to + c), hn::Set(DF(), mine));
      store_lanes(hn::MulAdd(load_lanes(from + c), hn::Set(DF(), theirs), old), to + c);
    }
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(FeatureKeys);
HWY_EXPORT(FeatureLargest);
HWY_EXPORT(FeatureAbsorb);
HWY_EXPORT(FeatureRead);
HWY_EXPORT(FeatureMerge);

std::size_t feature_forward_scratch(const FeatureSizes& z) {
  const std::size_t pitch = tile_pitch(kFeatureBlock);
  const std::size_t padded = FeatureProjection::padded(z.d);
  return (2 * z.d + padded + 2 * z.features + kFeatureBlock + std::max(padded, z.e) + 6) * pitch +
         kFeatureBlock * tile_pitch(z.e) + 2 * tile_width(z.features);
}

std::size_t feature_state_floats(const FeatureSizes& z) {
  return 2 * tile_width(z.features) + z.features * tile_pitch(z.e);
}

FeatureState feature_state(const FeatureSizes& z, float* memory) {
  const std::size_t wide = tile_width(z.features);
  return {memory, memory + wide, memory + 2 * wide};
}

void feature_merge(const FeatureMap& map, const FeatureSizes& z, const FeatureState& more,
                   const FeatureState& state) {
  HWY_DYNAMIC_DISPATCH(FeatureMerge)(map, z, more, state);
}

void feature_divide(const FeatureSizes& z, float gain, const FeatureState& state,
                    const FeatureState& kept) {
  for (std::size_t m = 0; m < z.features; ++m) {
    const float total = state.sum[m];
    const float factor = total == 0.0F ? 0.0F : gain / total;
    float* row = state.moment + m * tile_pitch(z.e);
    for (std::size_t c = 0; c < z.e; ++c) row[c] *= factor;
    kept.sum[m] = total;
    kept.top[m] = state.top[m];
    state.sum[m] = total == 0.0F ? 0.0F : 1.0F;
    state.top[m] = 0.0F;
  }
}

void feature_divide_backward(const FeatureSizes& z, float gain, const FeatureState& state,
                             const FeatureState& kept, const FeatureState& signal) {
  const std::size_t pitch = tile_pitch(z.e);
  for (std::size_t m = 0; m < z.features; ++m) {
    const float inverse = kept.sum[m] == 0.0F ? 0.0F : 1.0F / kept.sum[m];
    float* r = signal.moment + m * pitch;
    const float* s = state.moment + m * pitch;
    float dot = 0.0F;
    for (std::size_t c = 0; c < z.e; ++c) {
      dot += r[c] * s[c];
      r[c] *= gain * inverse;
    }
    signal.sum[m] = -dot * inverse;
  }
}

float feature_largest(const FeatureMap& map, ConstMatrix k, const FeatureSizes& z, float* scratch) {
  return HWY_DYNAMIC_DISPATCH(FeatureLargest)(map, k, z, scratch);
}

void feature_keys(const FeatureMap& map, ConstMatrix k, ConstMatrix v, float shift, float* top,
                  bool fresh, float* scratch) {
  HWY_DYNAMIC_DISPATCH(FeatureKeys)(map, k, v, shift, top, fresh, scratch);
}

void feature_absorb(const FeatureMap& map, const FeatureSizes& z, ConstMatrix k,
                    const FeatureState& state, float* scratch) {
  HWY_DYNAMIC_DISPATCH(FeatureAbsorb)(map, z, k, state, scratch);
}

void feature_read(const FeatureMap& map, const FeatureQueries& block, const FeatureState& state,
                  Matrix y, float* level, float* scratch) {
  HWY_DYNAMIC_DISPATCH(FeatureRead)(map, block, state, y, level, scratch);
}

}  // namespace longspan
#endif  // HWY_ONCE
