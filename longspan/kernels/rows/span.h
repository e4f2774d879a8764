// Scores of a sequence's rows as the scores of places: each column is a softmax down the rows.
//
//   p_c = softmax over the judged rows i of x[i, c]      L = Σ_c −log p_c[target_c]
//
// Rows that are not judged become zeros, and so does a column whose target is ignored. Metered
// (kSoftmax): 5 FLOPs per judged score forward, one per counted target backward. Serial: there are
// few columns, and they are as long as a sequence.
#pragma once

#include <cstdint>
#include <span>

#include "longspan/base/view.h"
#include "longspan/kernels/rows/sequence.h"
#include "longspan/kernels/rows/softmax.h"

namespace longspan {

// Sequence b's rows are behind those of b − 1: `length` of them, or with `packed` as many as are
// real. Judged are the real ones.
struct SpanRows {
  std::size_t batch = 0;
  Sequences sequences;
  bool packed = false;

  std::size_t rows(std::size_t b) const { return packed ? sequences.real(b) : sequences.length; }
  std::size_t judged(std::size_t b) const { return sequences.real(b); }
};

// One target per sequence and column, [batch, cols], a row of its sequence.
// The loss only; x is kept.
CrossEntropy span_loss(const SpanRows& rows, ConstMatrix x, const Targets& targets);
// In place: x becomes scale·p.
CrossEntropy span_loss_forward(const SpanRows& rows, Matrix x, const Targets& targets, float scale);
// The gradient of scale·loss: x[target, c] −= scale.
void span_loss_backward(const SpanRows& rows, Matrix x, const Targets& targets, float scale);

}  // namespace longspan
