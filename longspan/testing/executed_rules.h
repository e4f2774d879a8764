// What a step of each learning rule executes, worked out from the config alone; for the layers it
// builds on executed_formula.h and is as independent of what it is held against.
//
// F, B and U are the forward, backward and update of backpropagation there, F_L the forward of the
// last layer and its loss. M rows of a stack, d wide, f hidden; R rows and v columns of outputs;
// N rows of a translator's encoder.
//
//   bp, fa      F + B + U: a product with B [out, in] is one with W [out, in]
//   dfa         F + B + U; each trained block is sent e·B_l, R·v·d MACCs, and takes it through the
//               final norm, whose B comes once a block then; a classifier's R rows are divided
//               among tokens, R·d; no layer of a perceptron sends a signal to the one before
//   pepita      2·F + U
//   mempepita   3·F + U; but F_L of either comes once where the standard error trains the last layer
//               and twice where the modulated one does, a scale of the logits in every pass
//
// and of the last two, as overhead of the rule,
//
//   e           the loss's error; once more of the modulated outputs, or R·v for their difference
//   x + F·e     M·v·d MACCs for rows of e; R·v·d MACCs and M·d additions for e of whole sequences.
//               Where e is in the vocabulary the table's update is dense, M·v·d MACCs more
//   a − a_err   a block  7·M·d + M·f: q, k, v, two branches, two norms, FFN₁ (gated 2·f); every
//               embedding, norm and layer of the head its own width; an adapter its rank beside
//   ∂f/∂θ       the backward of a mechanism that has parameters, and M·d for C − C_err
//   rotary      taken off the differences of q and k
//
// and, of a translator, the projection of the error through attention, N×M pairs a sequence:
// softmax 5, scale 1; P·E v MACCs, its scores being gathered, or d and d for the scores in the space
// of the model, where E itself is M·v·d MACCs and every perturbation one addition an element.
#pragma once

#include <string_view>

#include "longspan/base/batch.h"
#include "longspan/base/cost.h"
#include "longspan/learning/feedback.h"
#include "longspan/models/config.h"

namespace longspan::testing {

// By the meter's names. Throws Error for a rule that has no formula.
CostTable executed_rule(std::string_view rule, const ModelConfig& config, const Feedback& feedback,
                        const Batch& batch);

}  // namespace longspan::testing
