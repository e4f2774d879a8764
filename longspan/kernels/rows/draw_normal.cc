#include "longspan/kernels/rows/draw_normal.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/draw_normal.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include <hwy/highway.h>

#include <algorithm>

#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/philox-inl.h"
#include "longspan/kernels/pieces.h"
#include "longspan/kernels/rows/box_muller-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

constexpr uint32_t kNormalPlane = 3;  // base/random.h has the counters {…, 0 to 2, 0}

// Numbers of a step, whole counters; the constant is an upper bound for arrays.
HWY_INLINE size_t step_numbers() { return 4 * hn::Lanes(D()); }
constexpr size_t kStepNumbers = 4 * hn::MaxLanes(D());
static_assert(detail::kPieceElements % kStepNumbers == 0);

HWY_INLINE void draw_pairs(Words radii, Words angles, float deviation, float* to) {
  const V radius = hn::Mul(radius_of(radii), hn::Set(D(), deviation));
  const Circle at = circle_of(angles);
  hn::StoreInterleaved2(hn::Mul(radius, at.cosine), hn::Mul(radius, at.sine), D(), to);
}

// The numbers of the counters block, block + 1, ….
HWY_INLINE void draw_step(const PhiloxKeys& keys, uint64_t block, float deviation, float* to) {
  const WordTag dw;
#if HWY_TARGET == HWY_SCALAR
  const RandomBlock r = philox(keys.key, {static_cast<uint32_t>(block),
                                          static_cast<uint32_t>(block >> 32U), kNormalPlane, 0});
  draw_pairs(hn::Set(dw, r[0]), hn::Set(dw, r[1]), deviation, to);
  draw_pairs(hn::Set(dw, r[2]), hn::Set(dw, r[3]), deviation, to + 2);
#else
  const Philox64 d;
  const auto counters = [&](uint64_t first) HWY_ATTR {
    const auto at = hn::Iota(d, first);
    return PhiloxCounters{at, hn::ShiftRight<32>(at), hn::Set(d, kNormalPlane), hn::Zero(d)};
  };
  PhiloxCounters a = counters(block);
  PhiloxCounters b = counters(block + hn::Lanes(d));
  philox_rounds(keys, a, b);
  const auto draw = [&](const PhiloxCounters& c, float* pairs) HWY_ATTR {
    draw_pairs(hn::BitCast(dw, philox_pair(c.c0, c.c2)), hn::BitCast(dw, philox_pair(c.c1, c.c3)),
               deviation, pairs);
  };
  draw(a, to);
  draw(b, to + step_numbers() / 2);
#endif
}

// Numbers [begin, end) of the stream; `begin` is that of a counter.
void draw_numbers(RandomKey key, float deviation, size_t begin, size_t end, float* to) {
  const PhiloxKeys keys(key);
  const size_t step = step_numbers();
  size_t i = begin;
  for (; i + step <= end; i += step) draw_step(keys, i / 4, deviation, to + i);
  if (i == end) return;
  HWY_ALIGN float rest[kStepNumbers];
  draw_step(keys, i / 4, deviation, rest);
  std::copy_n(rest, end - i, to + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {
HWY_EXPORT(draw_numbers);
}  // namespace

void draw_normal(RandomKey key, float deviation, std::span<float> to) {
  detail::in_pieces(to.size(), detail::kPieceElements, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(draw_numbers)(key, deviation, begin, end, to.data());
  });
}

}  // namespace longspan
#endif  // HWY_ONCE
