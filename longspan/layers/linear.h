// Linear:  y = x·Wᵀ + b,  W [out, in].
//
//   dx  = dy·W
//   dW += dyᵀ·x,   db += Σ_rows dy
//
// MACCs r·in·out in each phase for r rows; the bias adds r·out FLOPs forward and update. Frozen
// parameters have no update.
#pragma once

#include <string>

#include "longspan/base/cost.h"
#include "longspan/base/parameter.h"
#include "longspan/base/view.h"
#include "longspan/kernels/rows/activation.h"

namespace longspan {

class Linear {
 public:
  Linear(Parameters& parameters, const std::string& name, std::size_t in, std::size_t out,
         bool bias, float deviation, Role role = Role::kProjection);
  // Shares its weight with somebody else (a tied embedding); owns only the bias.
  Linear(Parameters& parameters, const std::string& name, Parameter& weight, bool bias,
         Role role = Role::kProjection);

  void forward(ConstMatrix x, Matrix y) const;
  // z = x·Wᵀ + b, h = f(z); z may be empty.
  void forward(ConstMatrix x, Activation f, Matrix z, Matrix h) const;
  // dx = dy·W, or dx += dy·W.
  void backward(ConstMatrix dy, Matrix dx, bool add = false) const;
  void accumulate(ConstMatrix x, ConstMatrix dy) const;

  Parameter& weight() const { return *weight_; }
  Parameter* bias() const { return bias_; }
  std::size_t in() const { return weight_->cols; }
  std::size_t out() const { return weight_->rows; }

 private:
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace longspan
