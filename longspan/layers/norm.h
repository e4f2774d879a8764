// LayerNorm and RMSNorm; the equations are in kernels/rows/norm.h.
#pragma once

#include <span>
#include <string>

#include "longspan/base/arena.h"
#include "longspan/base/cost.h"
#include "longspan/base/parameter.h"
#include "longspan/kernels/rows/norm.h"

namespace longspan {

class Norm {
 public:
  // What backward needs; empty at inference.
  struct Saved {
    Matrix normalized;         // x̂ [rows, d]
    std::span<float> inverse;  // 1/σ [rows]
  };

  // What of x̂ it learns: to scale it, and with LayerNorm to shift it.
  struct Learns {
    bool scale = true;
    bool shift = true;
  };
  Norm(Parameters& parameters, const std::string& name, NormKind kind, std::size_t d, float epsilon,
       Role role = Role::kNorm, Learns learns = {true, true});

  Saved save(std::size_t rows, Arena& arena) const;

  // y may be x.
  void forward(ConstMatrix x, Matrix y, const Saved& saved) const;
  // dx = …, or dx += … with `add`; dx may be dy.
  void backward(const Saved& saved, ConstMatrix dy, Matrix dx, bool add) const;
  void accumulate(const Saved& saved, ConstMatrix dy) const;

  // Nothing of it is trained.
  bool frozen() const { return gamma_->constant && (beta_ == nullptr || beta_->constant); }

 private:
  NormKind kind_;
  float epsilon_;
  Parameter* gamma_;
  Parameter* beta_ = nullptr;
};

}  // namespace longspan
