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

// Words of the counters {row, block, plane, 0}, {row, block + 1, plane, 0}, …, four per counter.
//
// A counter's word lives in the low half of a 64-bit lane. What lands in the high half is never
// looked at: the multiplication reads the low half only, and XOR does not mix them.
HWY_INLINE void philox_row(const PhiloxKeys& keys, uint32_t row, uint32_t block, uint32_t plane,
                           uint32_t* HWY_RESTRICT words) {
#if HWY_TARGET == HWY_SCALAR
  for (uint32_t i = 0; i < 2; ++i) {
    const RandomBlock bits = philox(keys.key, {row, block + i, plane, 0});
    for (size_t w = 0; w < 4; ++w) words[4 * i + w] = bits[w];
  }
#else
  const Philox64 d;
  const hn::Repartition<uint32_t, Philox64> d32;
  using W = hn::Vec<Philox64>;
  const size_t lanes = hn::Lanes(d);
  const auto times = [&](W a, uint32_t factor) HWY_ATTR {
    return hn::MulEven(hn::BitCast(d32, a), hn::Set(d32, factor));
  };
  const W low = hn::Set(d, 0xFFFFFFFFULL);
  // Two vectors of counters, a and b, whose multiplications overlap.
  W a0 = hn::Set(d, row);
  W a1 = hn::Iota(d, block);
  W a2 = hn::Set(d, plane);
  W a3 = hn::Zero(d);
  W b0 = a0;
  W b1 = hn::Iota(d, block + lanes);
  W b2 = a2;
  W b3 = a3;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const W k0 = hn::Set(d, keys.k0[round]);
    const W k1 = hn::Set(d, keys.k1[round]);
    const W ap0 = times(a0, kPhiloxMultiplier0);
    const W ap1 = times(a2, kPhiloxMultiplier1);
    const W bp0 = times(b0, kPhiloxMultiplier0);
    const W bp1 = times(b2, kPhiloxMultiplier1);
    a0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(ap1), a1), k0);
    a1 = ap1;
    a2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(ap0), a3), k1);
    a3 = ap0;
    b0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(bp1), b1), k0);
    b1 = bp1;
    b2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(bp0), b3), k1);
    b3 = bp0;
  }
  const auto pair = [&](W even, W odd)
                        HWY_ATTR { return hn::Or(hn::And(even, low), hn::ShiftLeft<32>(odd)); };
  auto* out = reinterpret_cast<uint64_t*>(words);  // NOLINT: two words of 32 bits, little endian
  hn::StoreInterleaved2(pair(a0, a1), pair(a2, a3), d, out);
  hn::StoreInterleaved2(pair(b0, b1), pair(b2, b3), d, out + 2 * lanes);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
