// Activations, elementwise, forward and backward.
//
//   kRelu      max(x, 0)
//   kGelu      x·Φ(x) = x·½·(1 + erf(x/√2))
//   kGeluTanh  ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))
//   kSilu      x·σ(x) = x/(1 + e^−x)
//   kTanh      tanh(x)
//   kQuickGelu x·σ(1.702·x)
//   kRelu2     max(x, 0)²
#pragma once

#include <cstdint>

#include "longspan/base/choice.h"
#include "longspan/base/view.h"

namespace longspan {

enum class Activation : std::uint8_t { kRelu, kGelu, kGeluTanh, kSilu, kTanh, kQuickGelu, kRelu2 };
constexpr Names<7> names_of(Activation /*kind*/) {
  return {
      "model", "activation", {"relu", "gelu", "gelu-tanh", "silu", "tanh", "quick-gelu", "relu2"}};
}

// FLOPs per element, as metered; exp, erf, tanh, compare and divide count 1 each. Backward includes
// the product with the incoming gradient.
struct ActivationFlops {
  std::uint64_t forward;
  std::uint64_t backward;
};
ActivationFlops flops_of(Activation activation);

// h = f(z); h may be z.
void activation_forward(Activation f, ConstMatrix z, Matrix h);
// dz = f'(z)·dh; dz may be dh.
void activation_backward(Activation f, ConstMatrix z, ConstMatrix dh, Matrix dz);

// The gated form, h = f(g)·u (SwiGLU with f = SiLU): one product more each way than f alone.
//   forward:  flops_of(f).forward + 1;  backward: flops_of(f).forward + flops_of(f).backward + 2
void gated_forward(Activation f, ConstMatrix g, ConstMatrix u, Matrix h);
// dg = f'(g)·(dh·u), du = dh·f(g); dg or du may be dh.
void gated_backward(Activation f, ConstMatrix g, ConstMatrix u, ConstMatrix dh, Matrix dg,
                    Matrix du);

// One contiguous range on the calling thread, unmetered; for kernels that fuse an activation.
void activation_serial(Activation f, const float* z, float* h, std::size_t n);

}  // namespace longspan
