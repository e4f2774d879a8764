// Philox4x32-10 for vectors of counters, bit for bit as in base/random.h. Included once per target.

#if defined(LONGSPAN_KERNELS_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_PHILOX_INL_H_
#undef LONGSPAN_KERNELS_PHILOX_INL_H_
#else
#define LONGSPAN_KERNELS_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "longspan/base/random.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Philox64 = hn::ScalableTag<uint64_t>;

// philox_row makes this many words; the constant is an upper bound for arrays.
HWY_INLINE size_t philox_words() { return 8 * hn::Lanes(Philox64()); }
constexpr size_t kPhiloxWords = 8 * hn::MaxLanes(Philox64());

// The key of every round.
struct PhiloxKeys {
  RandomKey key;
  uint32_t k0[kPhiloxRounds];
  uint32_t k1[kPhiloxRounds];
  explicit PhiloxKeys(RandomKey first) : key(first) {
    for (uint32_t round = 0; round < kPhiloxRounds; ++round) {
      k0[round] = static_cast<uint32_t>(key) + round * kPhiloxWeyl0;
      k1[round] = static_cast<uint32_t>(key >> 32U) + round * kPhiloxWeyl1;
    }
  }
};

#if HWY_TARGET != HWY_SCALAR
// A vector of counters: word i of each in the low half of its 64-bit lane. What lands in the high
// half is never looked at: the multiplication reads the low half only, and XOR does not mix them.
struct PhiloxCounters {
  using W = hn::Vec<Philox64>;
  W c0;
  W c1;
  W c2;
  W c3;
};

// All rounds of two vectors of counters, whose multiplications overlap.
HWY_INLINE void philox_rounds(const PhiloxKeys& keys, PhiloxCounters& a, PhiloxCounters& b) {
  const Philox64 d;
  const hn::Repartition<uint32_t, Philox64> d32;
  using W = PhiloxCounters::W;
  const auto times = [&](W c, uint32_t factor) HWY_ATTR {
    return hn::MulEven(hn::BitCast(d32, c), hn::Set(d32, factor));
  };
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const W k0 = hn::Set(d, keys.k0[round]);
    const W k1 = hn::Set(d, keys.k1[round]);
    const W ap0 = times(a.c0, kPhiloxMultiplier0);
    const W ap1 = times(a.c2, kPhiloxMultiplier1);
    const W bp0 = times(b.c0, kPhiloxMultiplier0);
    const W bp1 = times(b.c2, kPhiloxMultiplier1);
    a.c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(ap1), a.c1), k0);
    a.c1 = ap1;
    a.c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(ap0), a.c3), k1);
    a.c3 = ap0;
    b.c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(bp1), b.c1), k0);
    b.c1 = bp1;
    b.c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(bp0), b.c3), k1);
    b.c3 = bp0;
  }
}

// The low halves of both, in turn.
HWY_INLINE PhiloxCounters::W philox_pair(PhiloxCounters::W even, PhiloxCounters::W odd) {
  return hn::Or(hn::And(even, hn::Set(Philox64(), 0xFFFFFFFFULL)), hn::ShiftLeft<32>(odd));
}
#endif

// Words of the counters {row, block, plane, 0}, {row, block + 1, plane, 0}, …, four per counter.
HWY_INLINE void philox_row(const PhiloxKeys& keys, uint32_t row, uint32_t block, uint32_t plane,
                           uint32_t* HWY_RESTRICT words) {
#if HWY_TARGET == HWY_SCALAR
  for (uint32_t i = 0; i < 2; ++i) {
    const RandomBlock bits = philox(keys.key, {row, block + i, plane, 0});
    for (size_t w = 0; w < 4; ++w) words[4 * i + w] = bits[w];
  }
#else
  const Philox64 d;
  const size_t lanes = hn::Lanes(d);
  PhiloxCounters a = {hn::Set(d, row), hn::Iota(d, block), hn::Set(d, plane), hn::Zero(d)};
  PhiloxCounters b = a;
  b.c1 = hn::Iota(d, block + lanes);
  philox_rounds(keys, a, b);
  auto* out = reinterpret_cast<uint64_t*>(words);  // NOLINT: two words of 32 bits, little endian
  hn::StoreInterleaved2(philox_pair(a.c0, a.c1), philox_pair(a.c2, a.c3), d, out);
  hn::StoreInterleaved2(philox_pair(b.c0, b.c1), philox_pair(b.c2, b.c3), d, out + 2 * lanes);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
