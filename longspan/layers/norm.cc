#include "longspan/layers/norm.h"

#include "longspan/kernels/rows/vector.h"

namespace longspan {

Norm::Norm(Parameters& parameters, const std::string& name, NormKind kind, std::size_t d,
           float epsilon, Role role, Learns learns)
    : kind_(kind),
      epsilon_(epsilon),
      gamma_(learns.scale ? &parameters.declare(name + ".weight", d, Initializer::ones(), role)
                          : &parameters.declare_constant(name + ".weight", 1, d,
                                                         [](Matrix ones) { fill(ones, 1.0F); })) {
  if (kind == NormKind::kLayer && learns.shift) {
    beta_ = &parameters.declare(name + ".bias", d, Initializer::zeros(), role);
  }
}

Norm::Saved Norm::save(std::size_t rows, Arena& arena) const {
  return {arena.matrix(rows, gamma_->cols), arena.take(rows)};
}

void Norm::forward(ConstMatrix x, Matrix y, const Saved& saved) const {
  norm_forward(kind_, epsilon_, x, gamma_->value.data(),
               beta_ == nullptr ? nullptr : beta_->value.data(), y, saved.normalized,
               saved.inverse);
}

void Norm::backward(const Saved& saved, ConstMatrix dy, Matrix dx, bool add) const {
  norm_backward(kind_, saved.normalized, saved.inverse, gamma_->value.data(), dy, dx, add);
}

void Norm::accumulate(const Saved& saved, ConstMatrix dy) const {
  if (frozen()) return;
  if (gamma_->constant) return add_column_sums(dy, beta_->gradient.data());
  norm_accumulate(kind_, saved.normalized, dy, gamma_->gradient.data(),
                  beta_ == nullptr ? nullptr : beta_->gradient.data());
}

}  // namespace longspan
