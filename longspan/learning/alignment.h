// How far a rule's gradients point where backpropagation's do: for every trained parameter the
// cosine of the angle between the two, on one batch. Above 0 a step lowers the loss to first order.
#pragma once

#include <string>
#include <vector>

#include "longspan/learning/rule.h"

namespace longspan {

struct Alignment {
  std::string parameter;
  double cosine = 0.0;  // 0 where either gradient is zero
  double ratio = 0.0;   // of the norms, the rule's by backpropagation's
};

// Both gradients with the same dropout masks. Leaves the model's gradients zero.
std::vector<Alignment> measure_alignment(Model& model, Rule& rule, const Batch& batch,
                                         RandomKey key);
// The mean over the matrices.
double mean_cosine(const Model& model, const std::vector<Alignment>& alignments);

}  // namespace longspan
