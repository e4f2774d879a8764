// Optimiser steps.

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/vector_step.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include <hwy/highway.h>

#include <cmath>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/pieces.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/kernels/rows/vector_step.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

// g·scale + λ·w
template <class IO>
HWY_INLINE V gradient(IO io, const float* g, V w, V scale, V decay) {
  return hn::MulAdd(decay, w, hn::Mul(scale, io.load(g)));
}

void sgd_run(const StepOptions& o, const float* g, float* w, size_t n) {
  const V rate = hn::Set(D(), o.learning_rate);
  const V scaled = hn::Set(D(), o.gradient_scale);
  const V decay = hn::Set(D(), o.weight_decay);
  for_lanes(n, [&](auto io, size_t i) HWY_ATTR {
    const V old = io.load(w + i);
    io.store(hn::NegMulAdd(rate, gradient(io, g + i, old, scaled, decay), old), w + i);
  });
}

void momentum_run(const StepOptions& o, const float* g, float* v, float* w, size_t n) {
  const V rate = hn::Set(D(), o.learning_rate);
  const V scaled = hn::Set(D(), o.gradient_scale);
  const V decay = hn::Set(D(), o.weight_decay);
  const V mu = hn::Set(D(), o.momentum);
  for_lanes(n, [&](auto io, size_t i) HWY_ATTR {
    const V old = io.load(w + i);
    const V speed = hn::MulAdd(mu, io.load(v + i), gradient(io, g + i, old, scaled, decay));
    io.store(speed, v + i);
    io.store(hn::NegMulAdd(rate, speed, old), w + i);
  });
}

void adam_run(const detail::AdamConstants& c, const float* g, float* m, float* v, float* w,
              size_t n) {
  const D d;
  const V scaled = hn::Set(d, c.gradient_scale);
  const V decay = hn::Set(d, c.added_decay);
  const V keep = hn::Set(d, c.keep);
  const V beta1 = hn::Set(d, c.beta1);
  const V new1 = hn::Set(d, c.new1);
  const V beta2 = hn::Set(d, c.beta2);
  const V new2 = hn::Set(d, c.new2);
  const V rate = hn::Set(d, c.rate);
  const V root_scale = hn::Set(d, c.root_scale);
  const V epsilon = hn::Set(d, c.epsilon);
  for_lanes(n, [&](auto io, size_t i) HWY_ATTR {
    const V old = io.load(w + i);
    const V grad = gradient(io, g + i, old, scaled, decay);
    const V first = hn::MulAdd(beta1, io.load(m + i), hn::Mul(new1, grad));
    const V second = hn::MulAdd(beta2, io.load(v + i), hn::Mul(hn::Mul(new2, grad), grad));
    io.store(first, m + i);
    io.store(second, v + i);
    const V root = hn::MulAdd(hn::Sqrt(second), root_scale, epsilon);
    io.store(hn::NegMulAdd(rate, hn::Div(first, root), hn::Mul(keep, old)), w + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {

HWY_EXPORT(sgd_run);
HWY_EXPORT(momentum_run);
HWY_EXPORT(adam_run);

// `base` FLOPs and `traffic` floats per element.
Call step_call(std::string_view variant, const StepOptions& o, std::size_t n, std::size_t base,
               std::size_t traffic) {
  return row_call(Op::kStep, variant, 1, n, Kind::kOptimizer,
                  base + (o.weight_decay != 0.0F ? 2 : 0), 4 * traffic);
}

detail::AdamConstants constants_of(const StepOptions& o) {
  const auto t = static_cast<double>(o.step);
  const double rate = static_cast<double>(o.learning_rate);
  const double decay = static_cast<double>(o.weight_decay);
  return {.gradient_scale = o.gradient_scale,
          .added_decay = o.decoupled ? 0.0F : o.weight_decay,
          .keep = o.decoupled ? static_cast<float>(1.0 - rate * decay) : 1.0F,
          .beta1 = static_cast<float>(o.beta1),
          .new1 = static_cast<float>(1.0 - o.beta1),
          .beta2 = static_cast<float>(o.beta2),
          .new2 = static_cast<float>(1.0 - o.beta2),
          .rate = static_cast<float>(rate / (1.0 - std::pow(o.beta1, t))),
          .root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(o.beta2, t))),
          .epsilon = o.epsilon};
}

}  // namespace

void sgd_step(const StepOptions& o, std::span<const float> g, std::span<float> w) {
  require(g.size() == w.size(), "[sgd] {} gradients for {} weights", g.size(), w.size());
  const Called called([&] { return step_call("sgd", o, w.size(), 2, 3); });
  if (called.dry()) return;
  detail::in_pieces(w.size(), detail::kPieceElements, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(sgd_run)(o, g.data() + begin, w.data() + begin, end - begin);
  });
}

void momentum_step(const StepOptions& o, std::span<const float> g, std::span<float> v,
                   std::span<float> w) {
  require(g.size() == w.size() && v.size() == w.size(),
          "[momentum] {} gradients and {} speeds for {} weights", g.size(), v.size(), w.size());
  const Called called([&] { return step_call("momentum", o, w.size(), 4, 5); });
  if (called.dry()) return;
  detail::in_pieces(w.size(), detail::kPieceElements, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(momentum_run)
    (o, g.data() + begin, v.data() + begin, w.data() + begin, end - begin);
  });
}

void adam_step(const StepOptions& o, std::span<const float> g, std::span<float> m,
               std::span<float> v, std::span<float> w) {
  require(g.size() == w.size() && m.size() == w.size() && v.size() == w.size(),
          "[adam] {} gradients and {}, {} moments for {} weights", g.size(), m.size(), v.size(),
          w.size());
  require(o.step >= 1, "[adam] step is {}; need to count from 1", o.step);
  const Called called([&] { return step_call("adam", o, w.size(), 12, 7); });
  if (called.dry()) return;
  const detail::AdamConstants c = constants_of(o);
  detail::in_pieces(w.size(), detail::kPieceElements, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(adam_run)
    (c, g.data() + begin, m.data() + begin, v.data() + begin, w.data() + begin, end - begin);
  });
}

}  // namespace longspan
#endif  // HWY_ONCE
