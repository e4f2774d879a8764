// 2^x for vectors of float. Included once per target.

#if defined(LONGSPAN_KERNELS_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_EXP2_INL_H_
#undef LONGSPAN_KERNELS_EXP2_INL_H_
#else
#define LONGSPAN_KERNELS_EXP2_INL_H_
#endif

#include <hwy/highway.h>

#include "longspan/kernels/sparse/bounds-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 2^x for x ≤ 127; 0 from x = −127 down, less than the normal numbers from −126 on;
// NaN stays NaN. Rounding by adding 1.5·2²³ leaves the integer part in the low bits, ready to be
// shifted into the exponent; the polynomial is the minimax of degree 5 on [−½, ½] with value 1 at
// 0: 9e-8 relative. Its terms are added in pairs, so that they wait for each other half as long.
template <class D, class V>
HWY_INLINE V exp2_nonpositive(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.0F);
  const V limited = at_least(-127.0F, x);
  const V t = hn::Add(limited, magic);
  const V f = hn::Sub(limited, hn::Sub(t, magic));
  const V ff = hn::Mul(f, f);
  const V low = hn::MulAdd(hn::Set(d, 0.693147004F), f, hn::Set(d, 1.0F));
  const V middle = hn::MulAdd(hn::Set(d, 0.0555073358F), f, hn::Set(d, 0.240222424F));
  const V high = hn::MulAdd(hn::Set(d, 0.00132647273F), f, hn::Set(d, 0.00967151299F));
  const V p = hn::MulAdd(hn::MulAdd(high, ff, middle), ff, low);
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, t))));
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LONGSPAN_KERNELS_EXP2_INL_H_
