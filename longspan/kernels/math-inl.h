// exp, tanh, σ and Φ for vectors of float. Included once per target.
//
// The coefficients are minimax (Remez, relative error) for the stated interval.

#if defined(LONGSPAN_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_MATH_INL_H_
#undef LONGSPAN_KERNELS_MATH_INL_H_
#else
#define LONGSPAN_KERNELS_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include "longspan/kernels/exp2-inl.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/sparse/bounds-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

// c0 + c1·x + c2·x² + …
HWY_INLINE V horner(V /*x*/, float c0) { return hn::Set(D(), c0); }
template <class... Cs>
HWY_INLINE V horner(V x, float c0, Cs... more) {
  return hn::MulAdd(horner(x, more...), x, hn::Set(D(), c0));
}

// e^x, relative error below 1.5e-7. Below −86.6 the result is 0 (no denormals), above 88.72 it is
// +∞, and NaN stays NaN.
//   k = round(x/ln 2), r = x − k·ln 2, e^x = 2^(k−1)·2e^r; the exponent is k − 1 because k = 128
//   has no float.
HWY_INLINE V exp_of(V x) {
  constexpr float kLow = -86.6F;
  const D d;
  const hn::RebindToSigned<D> di;
  const V clamped = at_least(kLow, at_most(89.0F, x));
  const V magic = hn::Set(d, 12582912.0F);  // 1.5·2²³: the low bits of the sum are the integer
  const V shifted = hn::MulAdd(clamped, hn::Set(d, 1.44269504F), magic);
  const V k = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(k, hn::Set(d, 0.693359375F), clamped);  // exact: 9 bits times 10
  r = hn::NegMulAdd(k, hn::Set(d, -2.12194440e-4F), r);
  // |r| ≤ ln 2/2: error 3e-9.
  const V q = horner(r, 0.499999934F * 2, 0.166665201F * 2, 0.0416683942F * 2, 0.00836878041F * 2,
                     0.0013814467F * 2);
  const V two = hn::Set(d, 2.0F);
  const V p = hn::Add(hn::MulAdd(hn::Mul(r, r), q, hn::Add(r, r)), two);
  const auto exponent =
      hn::Add(hn::ShiftLeft<23>(hn::BitCast(di, shifted)), hn::Set(di, (127 - 1) << 23));
  const V y = hn::Mul(p, hn::BitCast(d, exponent));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kLow)), y);
}

// tanh x: x·P(x²) near zero for its relative error, (1 − t)/(1 + t) with t = e^(−2|x|) elsewhere.
HWY_INLINE V tanh_of(V x) {
  const D d;
  const V one = hn::Set(d, 1.0F);
  const V t = exp_of(hn::Mul(hn::Set(d, -2.0F), hn::Abs(x)));
  const V far = hn::CopySignToAbs(hn::Div(hn::Sub(one, t), hn::Add(one, t)), x);
  // |x| ≤ 0.625: error 4.4e-9.
  const V x2 = hn::Mul(x, x);
  const V p =
      horner(x2, -0.333332819F, 0.133314422F, -0.0537397154F, 0.0206390884F, -0.00570498828F);
  const V near = hn::MulAdd(hn::Mul(p, x2), x, x);
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.625F)), near, far);
}

// σ(x) = 1/(1 + e^−x)
HWY_INLINE V sigmoid_of(V x) {
  const V one = hn::Set(D(), 1.0F);
  return hn::Div(one, hn::Add(one, exp_of(hn::Neg(x))));
}

// σ(x) and σ'(x) = σ(x)·(1 − σ(x)) = t·σ(x)², t = e^−x, which keeps its digits where 1 − σ has
// none.
struct Logistic {
  V value;
  V slope;
};
HWY_INLINE Logistic logistic_of(V x) {
  const V one = hn::Set(D(), 1.0F);
  const V t = exp_of(at_most(80.0F, hn::Neg(x)));  // finite, and so is t·σ
  const V s = hn::Div(one, hn::Add(one, t));
  return {s, hn::Mul(hn::Mul(t, s), s)};
}

// The normal distribution at t ≥ 0.
struct Normal {
  V tail;     // 1 − Φ(t) = ½·erfc(t/√2)
  V density;  // φ(t) = e^(−t²/2)/√(2π)
};

// With u = 1/(1 + 0.265·t):  ½·erfc(t/√2) = e^(−t²/2)·u·P(u),  error 1.2e-8 for t ≤ 14, where both
// functions are 0; so one exponential gives both.
HWY_INLINE Normal normal_of(V t) {
  const D d;
  const V one = hn::Set(d, 1.0F);
  const V e = exp2_nonpositive(d, hn::Mul(hn::Mul(t, t), hn::Set(d, -0.721347520F)));
  const V u = hn::Div(one, hn::MulAdd(t, hn::Set(d, 0.265F), one));
  const V p = horner(u, 0.105741564F, 0.10524667F, 0.102700939F, 0.0603132989F, 0.137952606F,
                     -0.116361822F, 0.217814216F, -0.144228242F, 0.0308207738F);
  return {hn::Mul(hn::Mul(e, u), p), hn::Mul(e, hn::Set(d, 0.398942280F))};
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
