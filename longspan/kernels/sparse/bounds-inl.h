// Vectors cut off at a bound; NaN stays NaN. The x86 minimum and maximum return their second
// operand if one is NaN, Arm's are NaN then; Highway's scalar ones are not. Included once per
// target.

#if defined(LONGSPAN_KERNELS_BOUNDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_BOUNDS_INL_H_
#undef LONGSPAN_KERNELS_BOUNDS_INL_H_
#else
#define LONGSPAN_KERNELS_BOUNDS_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class V>
HWY_INLINE V at_most(float bound, V x) {
  const auto b = hn::Set(hn::DFromV<V>(), bound);
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Gt(x, b), b, x);
#else
  return hn::Min(b, x);
#endif
}

template <class V>
HWY_INLINE V at_least(float bound, V x) {
  const auto b = hn::Set(hn::DFromV<V>(), bound);
#if HWY_TARGET == HWY_SCALAR
  return hn::IfThenElse(hn::Lt(x, b), b, x);
#else
  return hn::Max(b, x);
#endif
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LONGSPAN_KERNELS_BOUNDS_INL_H_
