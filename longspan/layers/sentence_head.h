// A second head beside that of a language, which tells whole sequences apart: whether the second
// part of one follows the first (Devlin et al., 2019), or in which order they stand (Lan et al.,
// 2020).
//
//   p = tanh(x_first·W_pᵀ + b_p)
//   logits = p·Wᵀ + b
//
// B sequences, d wide, c classes: B·d·(d + c) MACCs in each phase; FLOPs B·(d + c) for the biases
// forward and in the update, tanh B·d forward and 3·B·d backward, and B·d to add the signal to that
// of the other head. Its cross-entropy 5·B·c forward and one per counted target backward.
#pragma once

#include <string>
#include <string_view>

#include "longspan/layers/branch.h"
#include "longspan/layers/linear.h"

namespace longspan {

struct SentenceHeadConfig {
  std::size_t d_model = 0;
  std::size_t classes = 0;
  float deviation = 0.02F;
};

class SentenceHead {
 public:
  static constexpr std::string_view kMeter = "sentence head";

  struct Saved {
    Matrix first;
    Matrix z;
    Matrix pooled;
    Matrix logits;
  };

  SentenceHead(Parameters& parameters, const std::string& name, const SentenceHeadConfig& config);

  // Everything it writes is taken from the arena, kept or not.
  Saved forward(const Pass& pass, ConstMatrix x, bool saves, Arena& arena) const;
  // dx += what comes of saved.logits, which holds ∂L/∂logits. Adds to the gradients.
  void backward(const Pass& pass, const Saved& saved, Matrix dx, Arena& arena) const;

 private:
  Linear pooler_;
  Linear output_;
};

}  // namespace longspan
