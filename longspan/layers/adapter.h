// A low-rank adapter beside a frozen linear layer (Hu et al., 2021, arXiv:2106.09685).
//
//   t  = x·Aᵀ            A [r, in], normal; B [out, r], zeros: it begins as nothing
//   y += s·t·Bᵀ          s = α/r
//
//   u  = dy·B
//   dx += s·u·A
//   dB += s·dyᵀ·t,  dA += s·uᵀ·x
//
// MACCs rows·r·(in + out) in each phase.
#pragma once

#include <string>

#include "longspan/base/cost.h"
#include "longspan/base/parameter.h"
#include "longspan/base/view.h"

namespace longspan {

class Adapter {
 public:
  Adapter(Parameters& parameters, const std::string& name, std::size_t in, std::size_t out,
          std::size_t rank, float alpha, Role role = Role::kAdapter);

  // t and u are [rows, rank].
  void forward(ConstMatrix x, Matrix t, Matrix y) const;
  void backward(ConstMatrix dy, Matrix u, Matrix dx) const;
  void accumulate(ConstMatrix x, ConstMatrix t, ConstMatrix dy, ConstMatrix u) const;

  std::size_t rank() const { return a_->rows; }
  bool frozen() const { return a_->constant; }

 private:
  Parameter* a_;
  Parameter* b_;
  float scale_;
};

}  // namespace longspan
