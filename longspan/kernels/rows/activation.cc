// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/activation.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "longspan/kernels/rows/activation.h"

#include <hwy/highway.h>

#include <array>
#include <cassert>
#include <vector>

#include "longspan/base/call.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/pieces.h"
#include "longspan/kernels/rows/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

void forward_run(Activation f, const float* z, float* h, size_t n) {
  with_activation(f, [&](auto function) HWY_ATTR {
    for_lanes(n,
              [&](auto io, size_t i) HWY_ATTR { io.store(function.value(io.load(z + i)), h + i); });
  });
}

void backward_run(Activation f, const float* z, const float* dh, float* dz, size_t n) {
  with_activation(f, [&](auto function) HWY_ATTR {
    for_lanes(n, [&](auto io, size_t i) HWY_ATTR {
      io.store(hn::Mul(function.both(io.load(z + i)).slope, io.load(dh + i)), dz + i);
    });
  });
}

void gated_forward_run(Activation f, const float* g, const float* u, float* h, size_t n) {
  with_activation(f, [&](auto function) HWY_ATTR {
    for_lanes(n, [&](auto io, size_t i) HWY_ATTR {
      io.store(hn::Mul(function.value(io.load(g + i)), io.load(u + i)), h + i);
    });
  });
}

// The three inputs of an element are loaded before its outputs are stored: either may be dh.
void gated_backward_run(Activation f, const float* g, const float* u, const float* dh, float* dg,
                        float* du, size_t n) {
  with_activation(f, [&](auto function) HWY_ATTR {
    for_lanes(n, [&](auto io, size_t i) HWY_ATTR {
      const V signal = io.load(dh + i);
      const V gate = io.load(u + i);
      const ValueAndSlope y = function.both(io.load(g + i));
      io.store(hn::Mul(y.slope, hn::Mul(signal, gate)), dg + i);
      io.store(hn::Mul(signal, y.value), du + i);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {

HWY_EXPORT(forward_run);
HWY_EXPORT(backward_run);
HWY_EXPORT(gated_forward_run);
HWY_EXPORT(gated_backward_run);

void require_same(ConstMatrix a, ConstMatrix b) {
  require(a.rows == b.rows && a.cols == b.cols, "[activation] {}x{} and {}x{}; need equal shapes",
          a.rows, a.cols, b.rows, b.cols);
}

}  // namespace

// Forward; backward, which ends with ·dh:
//   relu       max(x, 0); one comparison
//   gelu       x·½·(1 + erf(x·c)): ·, erf, +, ·, ·; Φ 4, φ = c·e^(−½x²) 4, x·φ, Φ + xφ, ·dh
//   gelu-tanh  ½x·(1 + tanh(x·(a + b·x²))): x², ·, +, ·, tanh, +, ·, ·;
//              13 as in the literature, ·dh
//   silu       x/(1 + e^−x): −, e, +, /; σ 4, σ·(1 + x·(1 − σ)) 4, ·dh
//   tanh       tanh; dh/cosh²(x): cosh, square, division
//   quick-gelu x·σ(c·x): ·, σ as above, ·; z = c·x 1, σ 4, σ·(1 + z·(1 − σ)) 4, ·dh
//   relu2      max(x, 0)²: comparison, ·; comparison, ·2, ·dh
ActivationFlops flops_of(Activation activation) {
  constexpr std::array<ActivationFlops, 7> kFlops = {
      {{1, 1}, {5, 11}, {8, 14}, {4, 9}, {1, 3}, {5, 10}, {2, 3}}};
  return kFlops[static_cast<std::size_t>(activation)];
}

void activation_serial(Activation f, const float* z, float* h, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(forward_run)(f, z, h, n);
}

void activation_forward(Activation f, ConstMatrix z, Matrix h) {
  require_same(z, h);
  const Called called([&] {
    return row_call(Op::kActivation, name_of(f), h.rows, h.cols, Kind::kActivation,
                    flops_of(f).forward, 8);
  });
  if (called.dry()) return;
  detail::in_runs(h.rows, h.cols, z.contiguous() && h.contiguous(),
                  [&](std::size_t r, std::size_t c, std::size_t n) {
                    activation_serial(f, z.row_data(r) + c, h.row_data(r) + c, n);
                  });
}

void activation_backward(Activation f, ConstMatrix z, ConstMatrix dh, Matrix dz) {
  require_same(z, dh);
  require_same(z, dz);
  const Called called([&] {
    return row_call(Op::kActivationBackward, name_of(f), z.rows, z.cols, Kind::kActivation,
                    flops_of(f).backward, 12);
  });
  if (called.dry()) return;
  detail::in_runs(z.rows, z.cols, z.contiguous() && dh.contiguous() && dz.contiguous(),
                  [&](std::size_t r, std::size_t c, std::size_t n) {
                    HWY_DYNAMIC_DISPATCH(backward_run)
                    (f, z.row_data(r) + c, dh.row_data(r) + c, dz.row_data(r) + c, n);
                  });
}

void gated_forward(Activation f, ConstMatrix g, ConstMatrix u, Matrix h) {
  require_same(g, u);
  require_same(g, h);
  const Called called([&] {
    return row_call(Op::kGated, name_of(f), h.rows, h.cols, Kind::kActivation,
                    flops_of(f).forward + 1, 12);
  });
  if (called.dry()) return;
  detail::in_runs(h.rows, h.cols, g.contiguous() && u.contiguous() && h.contiguous(),
                  [&](std::size_t r, std::size_t c, std::size_t n) {
                    HWY_DYNAMIC_DISPATCH(gated_forward_run)
                    (f, g.row_data(r) + c, u.row_data(r) + c, h.row_data(r) + c, n);
                  });
}

void gated_backward(Activation f, ConstMatrix g, ConstMatrix u, ConstMatrix dh, Matrix dg,
                    Matrix du) {
  for (const ConstMatrix m : {u, dh, ConstMatrix(dg), ConstMatrix(du)}) require_same(g, m);
  const Called called([&] {
    return row_call(Op::kGatedBackward, name_of(f), g.rows, g.cols, Kind::kActivation,
                    flops_of(f).forward + flops_of(f).backward + 2, 20);
  });
  if (called.dry()) return;
  const bool flat =
      g.contiguous() && u.contiguous() && dh.contiguous() && dg.contiguous() && du.contiguous();
  detail::in_runs(g.rows, g.cols, flat, [&](std::size_t r, std::size_t c, std::size_t n) {
    HWY_DYNAMIC_DISPATCH(gated_backward_run)
    (f, g.row_data(r) + c, u.row_data(r) + c, dh.row_data(r) + c, dg.row_data(r) + c,
     du.row_data(r) + c, n);
  });
}

}  // namespace longspan
#endif  // HWY_ONCE
