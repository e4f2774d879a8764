// What rules that compare a standard and a modulated pass need of multi-head attention.
#include "longspan/kernels/rows/vector.h"
#include "longspan/layers/multi_head_attention.h"

namespace longspan {

BranchSaved MultiHeadAttention::save_outputs(const Pass& pass, Arena& arena) const {
  const BranchSignals p = take_projections(pass, arena);
  BranchSaved saved;
  saved.projected = p.projected;
  saved.memory_projected = p.memory_projected;
  take_adapted(pass, arena, saved);
  if (mechanism_learns(mechanism_cost(pass))) {
    saved.combined = arena.matrix(pass.rows(), streams_.outputs());
  }
  return saved;
}

BranchSaved MultiHeadAttention::save_modulated(const Pass& pass, Arena& arena) const {
  BranchSaved saved = save_outputs(pass, arena);
  const AttentionCost mechanism = mechanism_cost(pass);
  if (mechanism_learns(mechanism)) {
    saved.mechanism = arena.take(mechanism.saved);
  } else {
    saved.combined = arena.matrix(pass.rows(), streams_.outputs());
  }
  return saved;
}

BranchSignals MultiHeadAttention::contrast(const Pass& pass, const BranchSaved& standard,
                                           const BranchSaved& modulated, float scale,
                                           Arena& arena) const {
  const auto contrasted = [&](Matrix a, ConstMatrix a_err) {
    if (a.data != nullptr && a.size() > 0) difference(scale, a, a_err, a);
    return a;
  };
  BranchSignals signals;
  signals.projected = contrasted(standard.projected, modulated.projected);
  signals.memory_projected = contrasted(standard.memory_projected, modulated.memory_projected);
  signals.adapted_in = contrasted(standard.adapted_in, modulated.adapted_in);
  signals.adapted_memory = contrasted(standard.adapted_memory, modulated.adapted_memory);
  signals.adapted_out = contrasted(standard.adapted_out, modulated.adapted_out);
  rotate(split(pass, signals.projected, signals.memory_projected), 0, true);
  const AttentionCost mechanism = mechanism_cost(pass);
  if (!mechanism_learns(mechanism)) return signals;

  const Matrix dcombined = contrasted(standard.combined, modulated.combined);
  signals.mechanism = arena.take(mechanism.signals);
  const Arena::Frame frame(arena);
  const BranchSignals spare = take_projections(pass, arena);
  const Tensors to = split(pass, spare.projected, spare.memory_projected);
  const Matrix dx = calls(Source::kInput) ? arena.matrix(pass.rows(), config_.d_model) : Matrix{};
  attend_backward(pass, modulated, dcombined, to, dx, signals.mechanism, arena);
  return signals;
}

}  // namespace longspan
