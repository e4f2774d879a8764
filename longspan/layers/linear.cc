#include "longspan/layers/linear.h"

#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

Linear::Linear(Parameters& parameters, const std::string& name, std::size_t in, std::size_t out,
               bool bias, float deviation, Role role)
    : Linear(parameters, name,
             parameters.declare(name + ".weight", out, in, Initializer::normal(deviation), role),
             bias, role) {}

Linear::Linear(Parameters& parameters, const std::string& name, Parameter& weight, bool bias,
               Role role)
    : weight_(&weight) {
  weight.packable = true;
  if (bias) bias_ = &parameters.declare(name + ".bias", weight.rows, Initializer::zeros(), role);
}

void Linear::forward(ConstMatrix x, Matrix y) const {
  linear_forward(x, weight_->weights(), bias_ == nullptr ? nullptr : bias_->value.data(), y);
}

void Linear::forward(ConstMatrix x, Activation f, Matrix z, Matrix h) const {
  linear_activation_forward(x, weight_->weights(), bias_ == nullptr ? nullptr : bias_->value.data(),
                            f, z, h);
}

void Linear::backward(ConstMatrix dy, Matrix dx, bool add) const {
  gemm(dy, weight_->backward_matrix(), dx, {.add = add});
}

void Linear::accumulate(ConstMatrix x, ConstMatrix dy) const {
  if (!weight_->constant) {
    gemm(dy, x, weight_->gradient_matrix(), {.transpose_a = true, .add = true});
  }
  if (bias_ != nullptr && !bias_->constant) add_column_sums(dy, bias_->gradient.data());
}

}  // namespace longspan
