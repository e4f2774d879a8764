// Transforms of up to 2·kFourierLanes real sequences side by side: those of the first half are the
// real parts, those of the second the imaginary parts of complex ones. Included once per target.

#if defined(LONGSPAN_KERNELS_FOURIER_TRANSFORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_FOURIER_TRANSFORM_INL_H_
#undef LONGSPAN_KERNELS_FOURIER_TRANSFORM_INL_H_
#else
#define LONGSPAN_KERNELS_FOURIER_TRANSFORM_INL_H_
#endif

#include <algorithm>
#include <utility>

#include "longspan/kernels/fourier/fourier_layout.h"
#include "longspan/kernels/fourier/fourier_plan.h"
#include "longspan/kernels/gemm/tile_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {

struct Wave {
  VF re;
  VF im;
};

HWY_INLINE Wave load_wave(const float* p) {
  return {hn::Load(DF(), p), hn::Load(DF(), p + kFourierLanes)};
}
HWY_INLINE void store_wave(Wave z, float* p) {
  hn::Store(z.re, DF(), p);
  hn::Store(z.im, DF(), p + kFourierLanes);
}
HWY_INLINE Wave operator+(Wave a, Wave b) { return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)}; }
HWY_INLINE Wave operator-(Wave a, Wave b) { return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)}; }
// a + i·b and a − i·b
HWY_INLINE Wave ahead(Wave a, Wave b) { return {hn::Sub(a.re, b.im), hn::Add(a.im, b.re)}; }
HWY_INLINE Wave behind(Wave a, Wave b) { return {hn::Add(a.re, b.im), hn::Sub(a.im, b.re)}; }
// z·(w₀ + i·w₁)
HWY_INLINE Wave rotated(Wave z, const float* w) {
  const VF c = hn::Set(DF(), w[0]);
  const VF s = hn::Set(DF(), w[1]);
  return {hn::NegMulAdd(z.im, s, hn::Mul(z.re, c)), hn::MulAdd(z.im, c, hn::Mul(z.re, s))};
}
// sum + f·z
HWY_INLINE Wave plus_scaled(Wave sum, const float* f, Wave z) {
  const VF factor = hn::Set(DF(), *f);
  return {hn::MulAdd(factor, z.re, sum.re), hn::MulAdd(factor, z.im, sum.im)};
}

// One butterfly: the elements that go in and come out are at these distances.
struct Butterfly {
  const float* from;
  std::size_t from_step;
  float* to;
  std::size_t to_step;
  const float* rotations;

  HWY_INLINE Wave in(std::size_t j) const { return load_wave(from + j * from_step); }
  template <bool kRotated>
  HWY_INLINE void out(std::size_t k, Wave z) const {
    if constexpr (kRotated) {
      if (k > 0) z = rotated(z, rotations + 2 * (k - 1));
    }
    store_wave(z, to + k * to_step);
  }
};

template <bool kRotated>
HWY_INLINE void butterfly_of_two(const Butterfly& b) {
  const Wave a0 = b.in(0);
  const Wave a1 = b.in(1);
  b.out<kRotated>(0, a0 + a1);
  b.out<kRotated>(1, a0 - a1);
}

template <bool kRotated>
HWY_INLINE void butterfly_of_four(const Butterfly& b) {
  const Wave a0 = b.in(0);
  const Wave a1 = b.in(1);
  const Wave a2 = b.in(2);
  const Wave a3 = b.in(3);
  const Wave even = a0 + a2;
  const Wave odd = a1 + a3;
  const Wave even_difference = a0 - a2;
  const Wave odd_difference = a1 - a3;
  b.out<kRotated>(0, even + odd);
  b.out<kRotated>(1, behind(even_difference, odd_difference));
  b.out<kRotated>(2, even - odd);
  b.out<kRotated>(3, ahead(even_difference, odd_difference));
}

// r = 2h + 1:  t_j = a_j + a_{r−j},  u_j = a_j − a_{r−j}
//   X[0] = a_0 + Σ t_j,   X[±k] = a_0 + Σ_j cos(2πjk/r)·t_j ∓ i·Σ_j sin(2πjk/r)·u_j
// kHalf is h, or 0 if that is known only when it runs.
template <bool kRotated, std::size_t kHalf>
HWY_INLINE void odd_butterfly(const Butterfly& b, const FourierStage& s) {
  constexpr std::size_t kMost = kHalf > 0 ? kHalf : (FourierFactors::kLargestRadix - 1) / 2;
  const std::size_t r = kHalf > 0 ? 2 * kHalf + 1 : s.radix;
  const std::size_t h = (r - 1) / 2;
  Wave t[kMost];
  Wave u[kMost];
  const Wave first = b.in(0);
  Wave sum = first;
  for (std::size_t j = 1; j <= h; ++j) {
    const Wave x = b.in(j);
    const Wave y = b.in(r - j);
    t[j - 1] = x + y;
    u[j - 1] = x - y;
    sum = sum + t[j - 1];
  }
  b.out<kRotated>(0, sum);
  for (std::size_t k = 1; k <= h; ++k) {
    Wave even = plus_scaled(first, &s.cosines[k], t[0]);
    const VF sine = hn::Set(DF(), s.sines[k]);
    Wave odd = {hn::Mul(sine, u[0].re), hn::Mul(sine, u[0].im)};
    std::size_t angle = k;
    for (std::size_t j = 1; j < h; ++j) {
      angle = angle + k < r ? angle + k : angle + k - r;
      even = plus_scaled(even, &s.cosines[angle], t[j]);
      odd = plus_scaled(odd, &s.sines[angle], u[j]);
    }
    b.out<kRotated>(k, behind(even, odd));
    b.out<kRotated>(r - k, ahead(even, odd));
  }
}

// kRadix is 0 for those that have no code of their own.
template <std::size_t kRadix, bool kRotated>
HWY_INLINE void butterfly_of(const Butterfly& b, const FourierStage& s) {
  if constexpr (kRadix == 2) {
    butterfly_of_two<kRotated>(b);
  } else if constexpr (kRadix == 4) {
    butterfly_of_four<kRotated>(b);
  } else {
    odd_butterfly<kRotated, kRadix / 2>(b, s);
  }
}

template <std::size_t kRadix, bool kRotated>
HWY_INLINE void butterflies(const FourierStage& s, std::size_t p, const float* from, float* to,
                            std::size_t width) {
  for (std::size_t q = 0; q < s.apart; ++q) {
    for (std::size_t lane = 0; lane < width; lane += kVectorLanes) {
      const Butterfly b{from + (q + s.apart * p) * kFourierPitch + lane,
                        s.apart * s.blocks * kFourierPitch,
                        to + (q + s.apart * s.radix * p) * kFourierPitch + lane,
                        s.apart * kFourierPitch, s.rotations.data() + 2 * (s.radix - 1) * p};
      butterfly_of<kRadix, kRotated>(b, s);
    }
  }
}

template <std::size_t kRadix>
HWY_NOINLINE void run_stage(const FourierStage& s, const float* from, float* to,
                            std::size_t width) {
  butterflies<kRadix, false>(s, 0, from, to, width);
  for (std::size_t p = 1; p < s.blocks; ++p) butterflies<kRadix, true>(s, p, from, to, width);
}

// The sequences in `x`, and as much room beside them; the two change places.
struct FourierRooms {
  float* x;
  float* other;
};

HWY_INLINE void run_stages(const FourierPlan& plan, std::size_t width, FourierRooms& rooms) {
  for (const FourierStage& s : plan.stages()) {
    switch (s.radix) {
      case 2:
        run_stage<2>(s, rooms.x, rooms.other, width);
        break;
      case 3:
        run_stage<3>(s, rooms.x, rooms.other, width);
        break;
      case 4:
        run_stage<4>(s, rooms.x, rooms.other, width);
        break;
      case 5:
        run_stage<5>(s, rooms.x, rooms.other, width);
        break;
      default:
        run_stage<0>(s, rooms.x, rooms.other, width);
    }
    std::swap(rooms.x, rooms.other);
  }
}

// to[j] = from[j]·w[j]; `swaps` the parts of the result.
HWY_INLINE void rotate_rows(const float* from, const float* w, std::size_t rows, std::size_t width,
                            bool swaps, float* to) {
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t lane = 0; lane < width; lane += kVectorLanes) {
      const Wave z = rotated(load_wave(from + j * kFourierPitch + lane), w + 2 * j);
      store_wave(swaps ? Wave{z.im, z.re} : z, to + j * kFourierPitch + lane);
    }
  }
}

HWY_INLINE void swap_parts(std::size_t rows, std::size_t width, float* x) {
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t lane = 0; lane < width; lane += kVectorLanes) {
      const Wave z = load_wave(x + j * kFourierPitch + lane);
      store_wave({z.im, z.re}, x + j * kFourierPitch + lane);
    }
  }
}

// The spectra, in rooms.x. With its parts swapped before and after, a transform goes back.
HWY_INLINE void transform(const FourierPlan& plan, std::size_t width, FourierRooms& rooms) {
  if (!plan.by_chirp()) return run_stages(plan, width, rooms);
  const std::size_t n = plan.length();
  const std::size_t m = plan.spectrum().size() / 2;
  rotate_rows(rooms.x, plan.chirp().data(), n, width, false, rooms.x);
  std::fill(rooms.x + n * kFourierPitch, rooms.x + m * kFourierPitch, 0.0F);
  run_stages(plan, width, rooms);
  rotate_rows(rooms.x, plan.spectrum().data(), m, width, true, rooms.x);
  run_stages(plan, width, rooms);
  swap_parts(n, width, rooms.x);
  rotate_rows(rooms.x, plan.chirp().data(), n, width, false, rooms.x);
}

// 2·H[k] and 2·H[−k] for k ≤ N/2.
struct Hartley {
  const float* plus;
  const float* minus;
};

HWY_INLINE Hartley hartley(const FourierPlan& plan, std::size_t width, FourierRooms rooms) {
  transform(plan, width, rooms);
  const std::size_t n = plan.length();
  const std::size_t half = n / 2 + 1;
  float* plus = rooms.other;
  float* minus = rooms.other + half * kFourierPitch;
  for (std::size_t k = 0; k < half; ++k) {
    for (std::size_t lane = 0; lane < width; lane += kVectorLanes) {
      const Wave z = load_wave(rooms.x + k * kFourierPitch + lane);
      const Wave back = load_wave(rooms.x + (k > 0 ? n - k : 0) * kFourierPitch + lane);
      const Wave sum = z + back;
      const Wave difference = {hn::Sub(z.im, back.im), hn::Sub(back.re, z.re)};
      store_wave(sum - difference, plus + k * kFourierPitch + lane);
      store_wave(sum + difference, minus + k * kFourierPitch + lane);
    }
  }
  return {plus, minus};
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
