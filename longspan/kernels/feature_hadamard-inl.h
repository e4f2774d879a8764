// Walsh–Hadamard products on a block of tokens: tokens in the lanes, a row of kFeaturePitch floats
// per feature.

#if defined(LONGSPAN_KERNELS_FEATURE_HADAMARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_FEATURE_HADAMARD_INL_H_
#undef LONGSPAN_KERNELS_FEATURE_HADAMARD_INL_H_
#else
#define LONGSPAN_KERNELS_FEATURE_HADAMARD_INL_H_
#endif

#include "longspan/kernels/feature_attention.h"
#include "longspan/kernels/tile_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {

inline constexpr std::size_t kHadamardPitch = tile_pitch(kFeatureBlock);

// Some stages of to = diag(after)·H·diag(before)·from; null factors are ones.
struct HadamardPass {
  const float* from;
  float* to;
  std::size_t p;      // rows, a power of two
  std::size_t width;  // a multiple of kTileUnit
  const float* before = nullptr;
  const float* after = nullptr;
};

// a ← a + b, b ← a − b.
HWY_INLINE void butterfly(VF& a, VF& b) {
  const VF sum = hn::Add(a, b);
  b = hn::Sub(a, b);
  a = sum;
}

// The same of f·a and g·b: the factors cost one multiplication for two rows.
HWY_INLINE void scaled_butterfly(VF& a, VF& b, const float* f, const float* g) {
  const DF d;
  const VF scale = hn::Set(d, *f);
  const VF second = hn::Mul(b, hn::Set(d, *g));
  b = hn::MulSub(a, scale, second);
  a = hn::MulAdd(a, scale, second);
}

// The stages of kRadix ∈ {2, 4, 8} rows that lie `step` rows apart, in registers.
template <int kRadix, bool kBefore>
HWY_INLINE void hadamard_stages(const HadamardPass& pass, std::size_t step, std::size_t row) {
  const DF d;
  const std::size_t next = step * kHadamardPitch;
  for (std::size_t c = 0; c < pass.width; c += kVectorLanes) {
    const float* from = pass.from + row * kHadamardPitch + c;
    float* to = pass.to + row * kHadamardPitch + c;
    const auto load = [&](int k) HWY_ATTR { return hn::LoadU(d, from + k * next); };
    const auto first = [&](VF& a, VF& b, int k) HWY_ATTR {
      if constexpr (kBefore) {
        const float* f = pass.before + row + k * step;
        scaled_butterfly(a, b, f, f + step);
      } else {
        butterfly(a, b);
      }
    };
    const auto store = [&](VF x, int k) HWY_ATTR {
      if (pass.after != nullptr) x = hn::Mul(x, hn::Set(d, pass.after[row + k * step]));
      hn::StoreU(x, d, to + k * next);
    };
    VF x0 = load(0), x1 = load(1), x2, x3, x4, x5, x6, x7;
    first(x0, x1, 0);
    if constexpr (kRadix >= 4) {
      x2 = load(2), x3 = load(3);
      first(x2, x3, 2);
      butterfly(x0, x2), butterfly(x1, x3);
    }
    if constexpr (kRadix == 8) {
      x4 = load(4), x5 = load(5), x6 = load(6), x7 = load(7);
      first(x4, x5, 4), first(x6, x7, 6);
      butterfly(x4, x6), butterfly(x5, x7);
      butterfly(x0, x4), butterfly(x1, x5), butterfly(x2, x6), butterfly(x3, x7);
      store(x4, 4), store(x5, 5), store(x6, 6), store(x7, 7);
    }
    if constexpr (kRadix >= 4) store(x2, 2), store(x3, 3);
    store(x0, 0), store(x1, 1);
  }
}

template <int kRadix>
HWY_INLINE void hadamard_pass(const HadamardPass& pass, std::size_t step) {
  for (std::size_t block = 0; block < pass.p; block += kRadix * step) {
    for (std::size_t row = block; row < block + step; ++row) {
      if (pass.before != nullptr) {
        hadamard_stages<kRadix, true>(pass, step, row);
      } else {
        hadamard_stages<kRadix, false>(pass, step, row);
      }
    }
  }
}

// to = diag(after)·H·diag(before)·from; `to` may be `from`.
inline void hadamard(const HadamardPass& whole) {
  const DF d;
  if (whole.p == 1) {
    const float factor = (whole.before != nullptr ? *whole.before : 1.0F) *
                         (whole.after != nullptr ? *whole.after : 1.0F);
    for (std::size_t c = 0; c < whole.width; c += kVectorLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, whole.from + c), hn::Set(d, factor)), d, whole.to + c);
    }
    return;
  }
  HadamardPass pass = whole;
  for (std::size_t step = 1; step < whole.p;) {
    const std::size_t left = whole.p / step;
    const std::size_t radix = left < 8 ? left : 8;
    pass.after = radix * step == whole.p ? whole.after : nullptr;
    if (radix == 8) {
      hadamard_pass<8>(pass, step);
    } else if (radix == 4) {
      hadamard_pass<4>(pass, step);
    } else {
      hadamard_pass<2>(pass, step);
    }
    pass.from = whole.to;
    pass.before = nullptr;
    step *= radix;
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LONGSPAN_KERNELS_FEATURE_HADAMARD_INL_H_
