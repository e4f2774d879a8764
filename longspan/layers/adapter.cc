#include "longspan/layers/adapter.h"

#include <cmath>

#include "longspan/kernels/gemm/gemm.h"

namespace longspan {

Adapter::Adapter(Parameters& parameters, const std::string& name, std::size_t in, std::size_t out,
                 std::size_t rank, float alpha, Role role)
    : a_(&parameters.declare(name + ".lora_a", rank, in,
                             Initializer::normal(1.0F / std::sqrt(static_cast<float>(in))), role)),
      b_(&parameters.declare(name + ".lora_b", out, rank, Initializer::zeros(), role)),
      scale_(alpha / static_cast<float>(rank)) {}

void Adapter::forward(ConstMatrix x, Matrix t, Matrix y) const {
  gemm(x, a_->matrix(), t, {.transpose_b = true});
  gemm(t, b_->matrix(), y, {.transpose_b = true, .add = true, .alpha = scale_});
}

void Adapter::backward(ConstMatrix dy, Matrix u, Matrix dx) const {
  gemm(dy, b_->backward_matrix(), u);
  gemm(u, a_->backward_matrix(), dx, {.add = true, .alpha = scale_});
}

void Adapter::accumulate(ConstMatrix x, ConstMatrix t, ConstMatrix dy, ConstMatrix u) const {
  const GemmOptions add{.transpose_a = true, .add = true, .alpha = scale_};
  gemm(dy, t, b_->gradient_matrix(), add);
  gemm(u, x, a_->gradient_matrix(), add);
}

}  // namespace longspan
