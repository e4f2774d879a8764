// Walsh–Hadamard products on a block of tokens: tokens in the lanes, a row of kFeaturePitch floats
// per feature.

#if defined(LONGSPAN_KERNELS_FEATURE_HADAMARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_FEATURE_HADAMARD_INL_H_
#undef LONGSPAN_KERNELS_FEATURE_HADAMARD_INL_H_
#else
#define LONGSPAN_KERNELS_FEATURE_HADAMARD_INL_H_
#endif

#include "longspan/kernels/feature/feature_attention.h"
#include "longspan/kernels/gemm/tile_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {

inline constexpr std::size_t kHadamardPitch = tile_pitch(kFeatureBlock);

// to = diag(after)·H·diag(f₁)·H·diag(f₀)·from on p rows, a power of two, and `width` lanes, a
// multiple of kTileUnit, or without f₁ and the H before it. f₀ and `after` may be null; the rows go
// through `room`, which may be `from` and `to`. `adds`: to += diag(after)·…
struct HadamardChain {
  const float* from;
  float* room;
  float* to;
  std::size_t p;
  std::size_t width;
  std::size_t turns;  // factors of H: 1 or 2
  const float* factors[2];
  const float* after = nullptr;
  bool adds = false;
};

// Stages of rows `step` apart: of H, or where the chain turns, of H·diag(f)·H and so on.
struct HadamardPass {
  const float* from;
  float* to;
  std::size_t width;
  std::size_t step;
  std::size_t count = 0;  // factors that stand before stages
  const float* before[2] = {nullptr, nullptr};
  const float* after = nullptr;
  bool adds = false;
};

// Up to eight rows in registers.
struct HadamardRows {
  VF x0, x1, x2, x3, x4, x5, x6, x7;
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

// x ← H·diag(f)·x of kRadix ∈ {1, 2, 4, 8} rows, the factors `step` apart.
template <int kRadix, bool kScaled>
HWY_INLINE void turn_rows(const float* f, std::size_t step, HadamardRows& x) {
  const auto first = [&](VF& a, VF& b, int k) HWY_ATTR {
    if constexpr (kScaled) {
      scaled_butterfly(a, b, f + k * step, f + (k + 1) * step);
    } else {
      butterfly(a, b);
    }
  };
  if constexpr (kRadix == 1 && kScaled) x.x0 = hn::Mul(x.x0, hn::Set(DF(), *f));
  if constexpr (kRadix >= 2) first(x.x0, x.x1, 0);
  if constexpr (kRadix >= 4) {
    first(x.x2, x.x3, 2);
    butterfly(x.x0, x.x2), butterfly(x.x1, x.x3);
  }
  if constexpr (kRadix == 8) {
    first(x.x4, x.x5, 4), first(x.x6, x.x7, 6);
    butterfly(x.x4, x.x6), butterfly(x.x5, x.x7);
    butterfly(x.x0, x.x4), butterfly(x.x1, x.x5), butterfly(x.x2, x.x6), butterfly(x.x3, x.x7);
  }
}

// Steps known to the compiler need no registers: kStep, or pass.step where it is 0.
template <int kRadix, std::size_t kStep, bool kScaled>
HWY_INLINE void hadamard_stages(const HadamardPass& pass, std::size_t row) {
  const DF d;
  const std::size_t step = kStep > 0 ? kStep : pass.step;
  const std::size_t next = step * kHadamardPitch;
  for (std::size_t c = 0; c < pass.width; c += kVectorLanes) {
    const float* from = pass.from + row * kHadamardPitch + c;
    float* to = pass.to + row * kHadamardPitch + c;
    const auto load = [&](int k) HWY_ATTR { return hn::LoadU(d, from + k * next); };
    const auto store = [&](VF x, int k) HWY_ATTR {
      if (pass.after != nullptr) {
        const VF f = hn::Set(d, pass.after[row + k * step]);
        x = pass.adds ? hn::MulAdd(x, f, hn::LoadU(d, to + k * next)) : hn::Mul(x, f);
      }
      hn::StoreU(x, d, to + k * next);
    };
    HadamardRows x;
    x.x0 = load(0);
    if constexpr (kRadix >= 2) x.x1 = load(1);
    if constexpr (kRadix >= 4) x.x2 = load(2), x.x3 = load(3);
    if constexpr (kRadix == 8) x.x4 = load(4), x.x5 = load(5), x.x6 = load(6), x.x7 = load(7);
    turn_rows<kRadix, kScaled>(kScaled ? pass.before[0] + row : nullptr, step, x);
    for (std::size_t i = 1; i < pass.count; ++i) {
      turn_rows<kRadix, true>(pass.before[i] + row, step, x);
    }
    if constexpr (kRadix == 8) store(x.x4, 4), store(x.x5, 5), store(x.x6, 6), store(x.x7, 7);
    if constexpr (kRadix >= 4) store(x.x2, 2), store(x.x3, 3);
    if constexpr (kRadix >= 2) store(x.x1, 1);
    store(x.x0, 0);
  }
}

template <int kRadix, std::size_t kStep>
HWY_INLINE void hadamard_pass(const HadamardPass& pass, std::size_t p) {
  for (std::size_t block = 0; block < p; block += kRadix * pass.step) {
    for (std::size_t row = block; row < block + pass.step; ++row) {
      if (pass.before[0] != nullptr) {
        hadamard_stages<kRadix, kStep, true>(pass, row);
      } else {
        hadamard_stages<kRadix, kStep, false>(pass, row);
      }
    }
  }
}

// Stages of one H commute: they go up from near rows to far ones and down again, so that the last
// ones before a diagonal and the first ones behind it share a pass over the rows.
inline void hadamard(const HadamardChain& chain) {
  std::size_t top = 0;
  while (chain.p >> (3 * top) > 8) ++top;
  const std::size_t last = chain.turns * top;
  for (std::size_t t = 0; t <= last; ++t) {
    const std::size_t turn = top == 0 ? 0 : t / top;
    const std::size_t on = t - turn * top;
    const std::size_t level = turn % 2 == 0 ? on : top - on;
    const std::size_t step = std::size_t{1} << (3 * level);
    HadamardPass pass{t == 0 ? chain.from : chain.room, t == last ? chain.to : chain.room,
                      chain.width, step};
    if (t > 0) pass.count = 1;
    for (std::size_t i = 0; i < chain.turns; ++i) {
      if (t == i * top) pass.before[pass.count++] = chain.factors[i];
    }
    if (t == last) {
      pass.after = chain.after;
      pass.adds = chain.adds;
    }
    const std::size_t left = chain.p / step;
    if (left >= 8 && level == 0) {
      hadamard_pass<8, 1>(pass, chain.p);
    } else if (left >= 8 && level == 1) {
      hadamard_pass<8, 8>(pass, chain.p);
    } else if (left >= 8) {
      hadamard_pass<8, 0>(pass, chain.p);
    } else if (left == 4) {
      hadamard_pass<4, 0>(pass, chain.p);
    } else if (left == 2) {
      hadamard_pass<2, 0>(pass, chain.p);
    } else {
      hadamard_pass<1, 0>(pass, chain.p);
    }
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LONGSPAN_KERNELS_FEATURE_HADAMARD_INL_H_
