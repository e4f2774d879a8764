// What forward and backward blocks of attention by features share.

#if defined(LONGSPAN_KERNELS_FEATURE_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_FEATURE_ATTENTION_INL_H_
#undef LONGSPAN_KERNELS_FEATURE_ATTENTION_INL_H_
#else
#define LONGSPAN_KERNELS_FEATURE_ATTENTION_INL_H_
#endif

#include "longspan/kernels/feature/feature_map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {

HWY_INLINE float sum_of(VF v) { return hn::GetLane(hn::SumOfLanes(DF(), v)); }
HWY_INLINE float max_of(VF v) { return hn::GetLane(hn::MaxOfLanes(DF(), v)); }

// s.keys = φ(k), relative to c for kExp; s.weights = their sum over the keys, s.rise by how much
// the largest exceeds c.
inline void key_features(const FeatureMap& map, ConstMatrix k, float shift, float* top, bool fresh,
                         const FeatureScratch& s) {
  const DF d;
  const std::size_t features = map.features(k.cols);
  const std::size_t width = tile_width(k.rows);
  float* minus = s.lines;
  project(map, k, s, s.key_x, s.keys);
  std::fill(minus, minus + width, 0.0F);
  if (map.subtracts_norm()) half_norms(s.key_x, k.cols, width, minus);
  if (map.running()) {
    fill_tail(s.keys, features, k.rows, -std::numeric_limits<float>::infinity());
  } else {
    for (std::size_t i = 0; i < width; ++i) minus[i] += shift;
    apply_plain(map, features, k.rows, minus, s.keys);
  }
  for (std::size_t m = 0; m < features; ++m) {
    float* row = s.keys + m * kFeaturePitch;
    VF sum = hn::Zero(d);
    if (!map.running()) {
      for (std::size_t c = 0; c < width; c += kVectorLanes) sum = hn::Add(sum, load_lanes(row + c));
      s.weights[m] = sum_of(sum);
      continue;
    }
    if (fresh) top[m] = row[0] - minus[0];
    const VF level = hn::Set(d, top[m]);
    VF most = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (std::size_t c = 0; c < width; c += kVectorLanes) {
      const VF u =
          at_most(kMostRise, hn::Sub(hn::Sub(load_lanes(row + c), load_lanes(minus + c)), level));
      const VF phi = exp2_nonpositive(d, u);
      most = hn::Max(most, u);
      sum = hn::Add(sum, phi);
      store_lanes(phi, row + c);
    }
    s.rise[m] = max_of(most);
    s.weights[m] = sum_of(sum);
  }
}

// Whether a key of the block lies so far above c that it was cut off.
inline bool some_cut_off(const FeatureMap& map, std::size_t features, const FeatureScratch& s) {
  return map.running() &&
         std::any_of(s.rise, s.rise + features, [](float rise) { return rise >= kMostRise; });
}

// s.query = u of a block's queries and s.keys = u of its keys: the logarithms of their features, for
// pairs that are taken one by one.
inline void block_logarithms(const FeatureMap& map, const FeatureQueries& block,
                             const FeatureScratch& s) {
  const std::size_t width = tile_width(block.k.rows);
  float* minus = s.lines;
  project(map, block.q, s, s.query_x, s.query);
  project(map, block.k, s, s.key_x, s.keys);
  if (!map.subtracts_norm()) return;
  half_norms(s.key_x, block.k.cols, width, minus);
  for_rows(s.keys, map.features(block.k.cols), width,
           [&](std::size_t, std::size_t c, float* at)
               HWY_ATTR { store_lanes(hn::Sub(load_lanes(at), load_lanes(minus + c)), at); });
}

// u ← 2^(u + c − level), a c per feature and a level per lane.
inline void exponentiate(std::size_t features, std::size_t width, const float* top,
                         const float* level, float* u) {
  const DF d;
  for_rows(u, features, width, [&](std::size_t m, std::size_t c, float* at) HWY_ATTR {
    const VF x = hn::Add(load_lanes(at), hn::Set(d, top[m]));
    store_lanes(exp2_nonpositive(d, hn::Sub(x, load_lanes(level + c))), at);
  });
}

// s.query = φ(q) from u; kExp: 2^(u + c − a) with the maximum a in `most`.
inline void query_features(const FeatureMap& map, std::size_t features, std::size_t width_d,
                           std::size_t count, const float* top, const FeatureScratch& s,
                           float* most) {
  const std::size_t width = tile_width(count);
  if (!map.running()) {
    if (map.kind == FeatureKind::kShifted) {
      float* norm = s.lines + 3 * kFeaturePitch;
      lane_maxima(s.query, features, width, most);
      half_norms(s.query_x, width_d, width, norm);
      for (std::size_t i = 0; i < width; ++i) most[i] += norm[i];
    }
    apply_plain(map, features, count, most, s.query);
    return;
  }
  const auto larger = [top](std::size_t m, VF u, VF a)
                          HWY_ATTR { return hn::Max(a, hn::Add(u, hn::Set(DF(), top[m]))); };
  fold_rows(s.query, features, width, hn::Set(DF(), std::numeric_limits<float>::lowest()), larger,
            most);
  exponentiate(features, width, top, most, s.query);
}

// to[i] = start + Σ_r weight[r]·block[r][i].
inline void weigh_rows(const float* block, const float* weight, std::size_t rows, std::size_t width,
                       float start, float* to) {
  const auto weigh = [weight](std::size_t r, VF x, VF sum)
                         HWY_ATTR { return hn::MulAdd(hn::Set(DF(), weight[r]), x, sum); };
  fold_rows(block, rows, width, hn::Set(DF(), start), weigh, to);
}

// The keys that the last query of a group of lanes sees.
template <int kVectors>
HWY_INLINE std::size_t group_visible(const FeatureQueries& block, std::size_t column) {
  const std::size_t last = std::min(column + kVectors * kVectorLanes, block.q.rows);
  return last <= column ? 0 : block.visible(last - 1);
}

// pairs[j][i] = 0 where query lane i must not see key j.
template <int kVectors>
HWY_INLINE void hide_later(const FeatureQueries& block, std::size_t rows, std::size_t column,
                           float* pairs) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  for (std::size_t c = column; c < column + kVectors * kVectorLanes; c += kVectorLanes) {
    const auto seen = hn::Iota(di, static_cast<std::int32_t>(block.seen + c));
    for (std::size_t j = block.seen + c < rows ? block.seen + c : rows; j < rows; ++j) {
      const auto sees = hn::Gt(seen, hn::Set(di, static_cast<std::int32_t>(j)));
      float* at = pairs + j * kFeaturePitch + c;
      store_lanes(hn::IfThenElseZero(hn::RebindMask(d, sees), load_lanes(at)), at);
    }
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LONGSPAN_KERNELS_FEATURE_ATTENTION_INL_H_
