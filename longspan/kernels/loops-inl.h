// Vector loops over rows whose length is not a multiple of the vector's. Included once per target.
//
//   for_lanes(n, [&](auto io, size_t i) HWY_ATTR { io.store(f(io.load(x + i)), y + i); });
//
// The body sees full vectors first and then, for the rest, a partial one that reads and writes
// nothing behind the end.

#if defined(LONGSPAN_KERNELS_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_LOOPS_INL_H_
#undef LONGSPAN_KERNELS_LOOPS_INL_H_
#else
#define LONGSPAN_KERNELS_LOOPS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

struct FullVector {
  HWY_INLINE V load(const float* p) const { return hn::LoadU(D(), p); }
  HWY_INLINE V load(const float* p, float /*fill*/) const { return hn::LoadU(D(), p); }
  HWY_INLINE void store(V v, float* p) const { hn::StoreU(v, D(), p); }
};

// The first `count` lanes; the others load as zero, or as `fill`.
struct PartVector {
  size_t count;

  HWY_INLINE V load(const float* p) const { return load(p, 0.0F); }
#if HWY_MEM_OPS_MIGHT_FAULT && HWY_TARGET != HWY_AVX2  // AVX2's 32-bit lanes have true masks
  HWY_INLINE V load(const float* p, float fill) const {
    HWY_ALIGN float lanes[hn::MaxLanes(D())];
    for (size_t i = 0; i < hn::Lanes(D()); ++i) lanes[i] = i < count ? p[i] : fill;
    return hn::Load(D(), lanes);
  }
  HWY_INLINE void store(V v, float* p) const {
    HWY_ALIGN float lanes[hn::MaxLanes(D())];
    hn::Store(v, D(), lanes);
    for (size_t i = 0; i < count; ++i) p[i] = lanes[i];
  }
#else
  HWY_INLINE V load(const float* p, float fill) const {
    const auto mask = hn::FirstN(D(), count);
    return hn::IfThenElse(mask, hn::MaskedLoad(mask, D(), p), hn::Set(D(), fill));
  }
  HWY_INLINE void store(V v, float* p) const {
    hn::BlendedStore(v, hn::FirstN(D(), count), D(), p);
  }
#endif
};

template <class Body>
HWY_INLINE void for_lanes(size_t n, const Body& body) {
  const size_t lanes = hn::Lanes(D());
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) body(FullVector{}, i);
  if (i < n) body(PartVector{n - i}, i);
}

// sum[j] += Σ_i term(io, i, j): rows [0, rows) are read four vectors at a time, so that a line of
// the cache is used up when it is there. Pieces of 256 rows are summed apart, so that the error
// grows with the number of pieces and not of rows.
template <class Term>
HWY_INLINE void add_down(size_t rows, size_t cols, float* sum, const Term& term) {
  constexpr size_t kRows = 256;
  const size_t lanes = hn::Lanes(D());
  const FullVector full;
  for (size_t first = 0; first < rows; first += kRows) {
    const size_t last = HWY_MIN(first + kRows, rows);
    size_t j = 0;
    for (; j + 4 * lanes <= cols; j += 4 * lanes) {
      V a = hn::Zero(D());
      V b = hn::Zero(D());
      V c = hn::Zero(D());
      V e = hn::Zero(D());
      for (size_t i = first; i < last; ++i) {
        a = hn::Add(a, term(full, i, j));
        b = hn::Add(b, term(full, i, j + lanes));
        c = hn::Add(c, term(full, i, j + 2 * lanes));
        e = hn::Add(e, term(full, i, j + 3 * lanes));
      }
      full.store(hn::Add(full.load(sum + j), a), sum + j);
      full.store(hn::Add(full.load(sum + j + lanes), b), sum + j + lanes);
      full.store(hn::Add(full.load(sum + j + 2 * lanes), c), sum + j + 2 * lanes);
      full.store(hn::Add(full.load(sum + j + 3 * lanes), e), sum + j + 3 * lanes);
    }
    for_lanes(cols - j, [&](auto io, size_t rest) HWY_ATTR {
      V a = hn::Zero(D());
      for (size_t i = first; i < last; ++i) a = hn::Add(a, term(io, i, j + rest));
      io.store(hn::Add(io.load(sum + j + rest), a), sum + j + rest);
    });
  }
}

// Four independent chains, joined in a fixed order.
//   take(io, i, a) → a with element i taken in, join(a, b) → their combination.
template <class Take, class Join>
HWY_INLINE V reduce(size_t n, V start, const Take& take, const Join& join) {
  const size_t lanes = hn::Lanes(D());
  V a = start;
  V b = start;
  V c = start;
  V e = start;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = take(FullVector{}, i, a);
    b = take(FullVector{}, i + lanes, b);
    c = take(FullVector{}, i + 2 * lanes, c);
    e = take(FullVector{}, i + 3 * lanes, e);
  }
  for (; i + lanes <= n; i += lanes) a = take(FullVector{}, i, a);
  if (i < n) b = take(PartVector{n - i}, i, b);
  return join(join(a, b), join(c, e));
}

// Σ take(i) over [0, n); lanes behind the end must contribute zero.
template <class Take>
HWY_INLINE float reduce_sum(size_t n, const Take& take) {
  const V sum = reduce(
      n, hn::Zero(D()), [&](auto io, size_t i, V acc) HWY_ATTR { return take(io, i, acc); },
      [](V x, V y) HWY_ATTR { return hn::Add(x, y); });
  return hn::GetLane(hn::SumOfLanes(D(), sum));
}

HWY_INLINE float row_max(const float* x, size_t n) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const V most = reduce(
      n, hn::Set(D(), kLowest),
      [&](auto io, size_t i, V acc) HWY_ATTR { return hn::Max(acc, io.load(x + i, kLowest)); },
      [](V a, V b) HWY_ATTR { return hn::Max(a, b); });
  return hn::GetLane(hn::MaxOfLanes(D(), most));
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
