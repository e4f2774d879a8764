// What rules that compare a standard and a modulated pass need of multi-head attention.
#include "longspan/kernels/rows/vector.h"
#include "longspan/layers/multi_head_attention.h"

namespace longspan {

Kept MultiHeadAttention::save_outputs(const Pass& pass, Arena& arena) const {
  Kept saved;
  take_projections(pass, arena, saved);
  take_adapted(pass, arena, saved);
  if (mechanism_learns(pass)) {
    saved[kCombined] = arena.matrix(pass.rows(), streams_.outputs());
  }
  return saved;
}

Kept MultiHeadAttention::save_modulated(const Pass& pass, Arena& arena) const {
  Kept saved = save_outputs(pass, arena);
  if (mechanism_learns(pass)) {
    saved[kMechanism] = arena.matrix(1, last_parts(pass).saved.end());
  } else {
    saved[kCombined] = arena.matrix(pass.rows(), streams_.outputs());
  }
  return saved;
}

Kept MultiHeadAttention::contrast(const Pass& pass, const Kept& standard, const Kept& modulated,
                                  float scale, const Beside& beside, Arena& arena) const {
  Kept signals;
  for (const What part :
       {kProjected, kContextProjected, kAdaptedIn, kAdaptedContext, kAdaptedOut}) {
    signals[part] = standard[part];
    if (standard[part].size() > 0) {
      difference(scale, standard[part], modulated[part], signals[part]);
    }
  }
  rotate_back(pass, signals);
  if (!mechanism_learns(pass)) return signals;

  const Matrix dcombined = standard[kCombined];
  difference(scale, dcombined, modulated[kCombined], dcombined);
  signals[kMechanism] = arena.matrix(1, last_parts(pass).signals.end());
  const Arena::Frame frame(arena);
  Kept spare;
  take_projections(pass, arena, spare);
  spare[kMechanism] = signals[kMechanism];
  const Matrix dx = calls(Source::kInput) ? arena.matrix(pass.rows(), config_.d_model) : Matrix{};
  attend_backward(pass, modulated, dcombined, spare, dx, beside, arena);
  return signals;
}

}  // namespace longspan
