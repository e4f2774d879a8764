#include "longspan/kernels/feature/feature_attention.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/feature/feature_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/feature/feature_attention-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {

// φ of a block of tokens, a row of tile_pitch(d) floats per token; zeros behind the features. Lies
// where `keys`, `query` and `pairs` do, which a block of tokens in the lanes would need.
struct FeatureRows {
  float* data;
  std::size_t pitch;
  std::size_t width;

  float* row(std::size_t i) const { return data + i * pitch; }
};

// A copy of what φ depends on, which no store can reach.
struct ElementMap {
  explicit ElementMap(const FeatureMap& map)
      : relu(map.kind == FeatureKind::kRelu), scale(map.scale), epsilon(map.epsilon) {}
  bool relu;
  float scale;
  float epsilon;
};

HWY_INLINE VF phi_of(const ElementMap& map, VF x) {
  const DF d;
  x = hn::Mul(x, hn::Set(d, map.scale));
  if (map.relu) return hn::Add(at_least(0.0F, x), hn::Set(d, map.epsilon));
  const VF low = exp2_nonpositive(d, hn::Mul(at_most(0.0F, x), hn::Set(d, kLog2OfE)));
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Add(x, hn::Set(d, 1.0F)), low);
}

// Calls use(i, c, φ) for every vector of the rows, which it stores.
template <class Use>
HWY_INLINE void map_row(ElementMap map, ConstMatrix x, std::size_t i, const FeatureRows& to,
                        const Use& use) {
  const float* from = x.row_data(i);
  float* row = to.row(i);
  std::size_t c = 0;
  for (; c + kVectorLanes <= x.cols; c += kVectorLanes) {
    use(c, phi_of(map, load_lanes(from + c)), row + c);
  }
  if (c == x.cols) return;
  std::copy(from + c, from + x.cols, row + c);
  std::fill(row + x.cols, row + to.width, 0.0F);
  store_lanes(phi_of(map, load_lanes(row + c)), row + c);
  std::fill(row + x.cols, row + to.width, 0.0F);
  for (; c < to.width; c += kVectorLanes) use(c, load_lanes(row + c), row + c);
}

FeatureRows rows_of(const FeatureScratch& s, std::size_t d) {
  return {s.keys, tile_pitch(d), tile_width(d)};
}

}  // namespace

void FeatureRowsAbsorb(const FeatureMap& map, ConstMatrix k, ConstMatrix v,
                       const FeatureState& state, float* memory) {
  const FeatureScratch s = divide_features({k.cols, v.cols, k.cols}, memory);
  const FeatureRows phi = rows_of(s, k.cols);
  const ElementMap element(map);
  for (std::size_t i = 0; i < k.rows; ++i) {
    map_row(element, k, i, phi, [&](std::size_t c, VF f, float* at) HWY_ATTR {
      store_lanes(f, at);
      store_lanes(hn::Add(load_lanes(state.sum + c), f), state.sum + c);
    });
  }
  copy_tokens(v, s.value);
  const std::size_t pitch = tile_pitch(v.cols);
  product({phi.data, phi.pitch, true}, {s.value, pitch}, k.cols, k.rows, tile_width(v.cols),
          {state.moment, pitch, Start::kAdd});
}

void FeatureRowsRead(const FeatureMap& map, ConstMatrix q, const FeatureState& state, Matrix y,
                     float* level, float* memory) {
  const FeatureScratch s = divide_features({q.cols, y.cols, q.cols}, memory);
  const FeatureRows phi = rows_of(s, q.cols);
  const ElementMap element(map);
  for (std::size_t i = 0; i < q.rows; ++i) {
    VF dot = hn::Zero(DF());
    map_row(element, q, i, phi, [&](std::size_t c, VF f, float* at) HWY_ATTR {
      store_lanes(f, at);
      dot = hn::MulAdd(f, load_lanes(state.sum + c), dot);
    });
    const float den = sum_of(dot) + map.denominator_epsilon;
    const float inverse = den <= 0.0F ? 0.0F : 1.0F / den;
    if (level != nullptr) level[i] = inverse;
    scale_row(inverse, phi.width, phi.row(i));
  }
  const std::size_t width = tile_width(y.cols);
  const bool direct = width == y.cols;
  const Out out = direct ? Out{y.data, y.stride} : Out{s.value, tile_pitch(y.cols)};
  product({phi.data, phi.pitch}, {state.moment, tile_pitch(y.cols)}, q.rows, q.cols, width, out);
  for (std::size_t i = 0; !direct && i < y.rows; ++i) {
    std::copy_n(s.value + i * tile_pitch(y.cols), y.cols, y.row_data(i));
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(FeatureRowsAbsorb);
HWY_EXPORT(FeatureRowsRead);

void feature_rows_absorb(const FeatureMap& map, ConstMatrix k, ConstMatrix v,
                         const FeatureState& state, float* scratch) {
  HWY_DYNAMIC_DISPATCH(FeatureRowsAbsorb)(map, k, v, state, scratch);
}

void feature_rows_read(const FeatureMap& map, ConstMatrix q, const FeatureState& state, Matrix y,
                       float* level, float* scratch) {
  HWY_DYNAMIC_DISPATCH(FeatureRowsRead)(map, q, state, y, level, scratch);
}

}  // namespace longspan
#endif  // HWY_ONCE
