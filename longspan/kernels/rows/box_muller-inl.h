// From random words to a radius and an angle (draw_normal.h). Included once per target, by files
// that are compiled without contraction of products and sums.
//
// The coefficients are minimax (Remez, relative error of the function) for the stated interval,
// rounded to float from the lowest on, each before the next ones are fitted.

#if defined(LONGSPAN_KERNELS_ROWS_BOX_MULLER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_ROWS_BOX_MULLER_INL_H_
#undef LONGSPAN_KERNELS_ROWS_BOX_MULLER_INL_H_
#else
#define LONGSPAN_KERNELS_ROWS_BOX_MULLER_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "longspan/kernels/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

using WordTag = hn::RebindToUnsigned<D>;
using Words = hn::Vec<WordTag>;

// c0 + c1·x + c2·x² + …, every product and every sum rounded.
HWY_INLINE V rounded_polynomial(V /*x*/, float c0) { return hn::Set(D(), c0); }
template <class... Cs>
HWY_INLINE V rounded_polynomial(V x, float c0, Cs... more) {
  return hn::Add(hn::Mul(rounded_polynomial(x, more...), x), hn::Set(D(), c0));
}

// √(−2 ln u), u = (r + ½)/2³².
//   u = 2^k·(1 + x) with 1 + x in [⅔, 1⅓):  ln u = k·ln 2 + x − x²/2 + x³·P(x)
HWY_INLINE V radius_of(Words r) {
  const D d;
  const hn::RebindToSigned<D> di;
  const auto s = hn::BitCast(di, r);
  // q = min(u, 1 − u), to all digits of a float.
  const auto folded = hn::ConvertTo(d, hn::Xor(s, hn::ShiftRight<31>(s)));
  const V q = hn::Mul(hn::Add(folded, hn::Set(d, 0.5F)), hn::Set(d, 0x1p-32F));
  const V one = hn::Set(d, 1.0F);
  const auto above = hn::RebindMask(d, hn::Lt(s, hn::Zero(di)));
  const auto u = hn::BitCast(di, hn::IfThenElse(above, hn::Sub(one, q), q));

  const auto exponent = hn::ShiftRight<23>(hn::Sub(u, hn::BitCast(di, hn::Set(d, 2.0F / 3.0F))));
  const V k = hn::ConvertTo(d, exponent);
  const V mantissa = hn::BitCast(d, hn::Sub(u, hn::ShiftLeft<23>(exponent)));
  // Where k is 0, u ≥ ⅔ has lost digits that x = u − 1 = −q still has.
  const V x = hn::IfThenElse(hn::Eq(k, hn::Zero(d)), hn::Neg(q), hn::Sub(mantissa, one));

  // |x| ≤ ⅓: error 4.1e-8. Small terms first; k·0.693359375 is exact.
  const V xx = hn::Mul(x, x);
  const V p = rounded_polynomial(x, 0.333332658F, -0.250042379F, 0.200079367F, -0.164722905F,
                                 0.140419692F, -0.151232526F, 0.138244286F);
  V ln = hn::Mul(hn::Mul(xx, x), p);
  ln = hn::Add(ln, hn::Mul(k, hn::Set(d, -2.12194440e-4F)));
  ln = hn::Sub(ln, hn::Mul(xx, hn::Set(d, 0.5F)));
  ln = hn::Add(hn::Add(ln, x), hn::Mul(k, hn::Set(d, 0.693359375F)));
  return hn::Sqrt(hn::Mul(ln, hn::Set(d, -2.0F)));
}

struct Circle {
  V cosine;
  V sine;
};

// cos τ and sin τ, τ = 2π·r/2³². The integer is reduced, exactly, to the nearest quarter of a turn
// and y in [−1, 1) half quarters beside it; its two low bits k say what becomes of
//   sin(y·π/4) = y·S(y²)  and  cos(y·π/4) = 1 + y²·C(y²).
HWY_INLINE Circle circle_of(Words r) {
  const D d;
  const WordTag dw;
  const hn::RebindToSigned<D> di;
  const V y = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, hn::ShiftLeft<2>(r))), hn::Set(d, 0x1p-31F));
  const V yy = hn::Mul(y, y);
  // Errors 2.8e-8 and 3.9e-8.
  const V sine = hn::Mul(
      y, rounded_polynomial(yy, 0.785398185F, -0.0807458311F, 0.00249101641F, -3.66091517e-5F));
  const V cosine = rounded_polynomial(yy, 1.0F, -0.308424413F, 0.0158501491F, -0.000318977021F);
  // k in the two upper bits. Odd: cosine and sine are each other's; a sign is the upper bit, for
  // the cosine's after another quarter.
  const Words k = hn::Add(r, hn::Set(dw, 1U << 29U));
  const auto odd = hn::RebindMask(d, hn::Lt(hn::BitCast(di, hn::ShiftLeft<1>(k)), hn::Zero(di)));
  const auto signed_by = [&](V v, Words upper) HWY_ATTR {
    return hn::Xor(v, hn::BitCast(d, hn::And(upper, hn::Set(dw, 1U << 31U))));
  };
  return {signed_by(hn::IfThenElse(odd, sine, cosine), hn::Add(k, hn::Set(dw, 1U << 30U))),
          signed_by(hn::IfThenElse(odd, cosine, sine), k)};
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
