// Activations and their derivatives for vectors of float. Included once per target.
//
// Arguments are clamped where the limit is reached: x·f(x) would be −∞·0 at −∞.

#if defined(LONGSPAN_KERNELS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_ACTIVATION_INL_H_
#undef LONGSPAN_KERNELS_ACTIVATION_INL_H_
#else
#define LONGSPAN_KERNELS_ACTIVATION_INL_H_
#endif

#include <hwy/highway.h>

#include "longspan/kernels/math-inl.h"
#include "longspan/kernels/rows/activation.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

struct ValueAndSlope {
  V value;  // f(x)
  V slope;  // f'(x)
};

HWY_INLINE V within(float bound, V x) { return at_most(bound, at_least(-bound, x)); }

struct Relu {
  HWY_INLINE V value(V x) const { return at_least(0.0F, x); }
  HWY_INLINE ValueAndSlope both(V x) const {
    return {value(x), hn::IfThenElseZero(hn::Gt(x, hn::Zero(D())), hn::Set(D(), 1.0F))};
  }
};

// x·Φ(x) = max(x, 0) − |x|·(1 − Φ(|x|)); Φ(x) + x·φ(x)
struct Gelu {
  static constexpr float kBound = 14.0F;  // 1 − Φ and φ are 0 beyond
  HWY_INLINE V value(V x, V t, const Normal& normal) const {
    return hn::NegMulAdd(t, normal.tail, at_least(0.0F, x));
  }
  HWY_INLINE V value(V x) const {
    const V t = at_most(kBound, hn::Abs(x));
    return value(x, t, normal_of(t));
  }
  HWY_INLINE ValueAndSlope both(V x) const {
    const V t = at_most(kBound, hn::Abs(x));
    const Normal normal = normal_of(t);
    // The slopes at x and −x add up to 1.
    const V below = hn::NegMulAdd(t, normal.density, normal.tail);
    return {value(x, t, normal),
            hn::IfThenElse(hn::Lt(x, hn::Zero(D())), below, hn::Sub(hn::Set(D(), 1.0F), below))};
  }
};

// u = √(2/π)·(x + 0.044715·x³), s = σ(2u) = ½·(1 + tanh u); x·s; s + x·σ'(2u)·2u'
struct GeluTanh {
  static constexpr float kBound = 30.0F;
  static constexpr float kLinear = 2.0F * 0.797884561F;
  static constexpr float kCubic = kLinear * 0.044715F;
  HWY_INLINE V twice_u(V x, V x2) const { return hn::Mul(x, horner(x2, kLinear, kCubic)); }
  HWY_INLINE V value(V x) const {
    const V c = within(kBound, x);
    return hn::Mul(at_least(-kBound, x), sigmoid_of(twice_u(c, hn::Mul(c, c))));
  }
  HWY_INLINE ValueAndSlope both(V x) const {
    const V c = within(kBound, x);
    const V x2 = hn::Mul(c, c);
    const Logistic s = logistic_of(twice_u(c, x2));
    const V du = horner(x2, kLinear, 3.0F * kCubic);
    return {hn::Mul(at_least(-kBound, x), s.value), hn::MulAdd(hn::Mul(c, du), s.slope, s.value)};
  }
};

// s = σ(x); x·s; s + x·σ'(x)
struct Silu {
  static constexpr float kBound = 100.0F;
  HWY_INLINE V value(V x) const { return hn::Mul(at_least(-kBound, x), sigmoid_of(x)); }
  HWY_INLINE ValueAndSlope both(V x) const {
    const Logistic s = logistic_of(x);
    return {hn::Mul(at_least(-kBound, x), s.value),
            hn::MulAdd(within(kBound, x), s.slope, s.value)};
  }
};

// s = σ(c·x), c = 1.702; x·s; s + c·x·σ'(c·x)
struct QuickGelu {
  static constexpr float kFactor = 1.702F;
  static constexpr float kBound = 60.0F;
  HWY_INLINE V scaled(V x) const { return hn::Mul(hn::Set(D(), kFactor), x); }
  HWY_INLINE V value(V x) const { return hn::Mul(at_least(-kBound, x), sigmoid_of(scaled(x))); }
  HWY_INLINE ValueAndSlope both(V x) const {
    const Logistic s = logistic_of(scaled(x));
    return {hn::Mul(at_least(-kBound, x), s.value),
            hn::MulAdd(scaled(within(kBound, x)), s.slope, s.value)};
  }
};

// r = max(x, 0); r²; 2r
struct Relu2 {
  HWY_INLINE V value(V x) const {
    const V r = at_least(0.0F, x);
    return hn::Mul(r, r);
  }
  HWY_INLINE ValueAndSlope both(V x) const {
    const V r = at_least(0.0F, x);
    return {hn::Mul(r, r), hn::Add(r, r)};
  }
};

// 1/cosh²(x) = 4t/(1 + t)², t = e^(−2|x|), which keeps its digits where 1 − tanh² has none.
struct TanH {
  HWY_INLINE V value(V x) const { return tanh_of(x); }
  HWY_INLINE ValueAndSlope both(V x) const {
    const V t = exp_of(hn::Mul(hn::Set(D(), -2.0F), hn::Abs(x)));
    const V sum = hn::Add(t, hn::Set(D(), 1.0F));
    return {tanh_of(x), hn::Div(hn::Mul(hn::Set(D(), 4.0F), t), hn::Mul(sum, sum))};
  }
};

// Calls body with the function object of f.
template <class Body>
HWY_INLINE void with_activation(Activation f, const Body& body) {
  switch (f) {
    case Activation::kRelu:
      return body(Relu());
    case Activation::kGelu:
      return body(Gelu());
    case Activation::kGeluTanh:
      return body(GeluTanh());
    case Activation::kSilu:
      return body(Silu());
    case Activation::kTanh:
      return body(TanH());
    case Activation::kQuickGelu:
      return body(QuickGelu());
    case Activation::kRelu2:
      return body(Relu2());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
