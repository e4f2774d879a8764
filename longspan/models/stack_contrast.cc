// A standard and a modulated pass through a stack, and what its layers learn from them.
#include <utility>

#include "longspan/kernels/rows/vector.h"
#include "longspan/models/stack.h"

namespace longspan {

namespace {}

Stack::Turns Stack::start(const Pass& pass, Matrix x, Arena& arena) const {
  const Turns t{x, arena.matrix(pass.rows(), width())};
  if (reversible()) copy(t.x, t.other);
  return t;
}

ConstMatrix Stack::source(const Turns& t, std::size_t i) const {
  return reversible() && i % 2 == 0 ? t.other : t.x;
}

Matrix Stack::target(const Turns& t, std::size_t i) const {
  return reversible() && i % 2 == 0 ? t.x : t.other;
}

void Stack::turn(Turns& t) const {
  if (!reversible()) std::swap(t.x, t.other);
}

Matrix Stack::join(const Pass& pass, const Turns& t, Arena& arena) const {
  if (!reversible()) return t.x;
  const Matrix y = config_.concatenates ? take_output(pass, arena) : t.x;
  join_streams(t.x, t.other, y);
  return y;
}

Matrix Stack::observe(const Compared& standard, const Contrast& contrast, Outputs& outputs,
                      Arena& arena) const {
  const Pass& pass = standard.pass;
  outputs.residuals.resize(residuals_.size());
  Turns t;
  if (reversible()) {
    const Matrix stream = arena.matrix(pass.rows(), width());
    copy(standard.x, stream);
    t = start(pass, stream, arena);
  }
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    const Place::Block block(layer_[i]);
    // Post-norm outputs are kept; elsewhere two buffers take turns, neither of them the caller's.
    if (!reversible() && (post_norm() || i < 2)) t.other = arena.matrix(pass.rows(), width());
    outputs.residuals[i] = residuals_[i].take_outputs(pass_of(pass, i), target(t, i), arena);
    residuals_[i].observe(pass_of(pass, i), !reversible() && i == 0 ? standard.x : source(t, i),
                          target(t, i), outputs.residuals[i], contrast,
                          beside_of(standard.beside, i), arena);
    turn(t);
  }
  outputs.final_norm = finish(pass, join(pass, t, arena), nullptr, arena);
  return outputs.final_norm;
}

void Stack::learn_final_norm(const Pass& pass, ConstMatrix standard, Matrix x, float scale,
                             Arena& arena) const {
  if (final_norm_ == nullptr) return;
  const Place::Scope place(kFinalMeter, Phase::kForward);
  const Arena::Frame frame(arena);
  Norm::Saved saved;
  if (final_norm_learns()) saved = final_norm_->save(pass.rows(), arena);
  final_norm_->forward(x, x, saved);
  if (!final_norm_learns()) return;
  const Matrix signal = take_output(pass, arena);
  {
    const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
    difference(scale, standard, x, signal);
  }
  const Place::Scope scope(kFinalMeter, Phase::kUpdate);
  final_norm_->accumulate(saved, signal);
}

void Stack::learn(Compared& modulated, const Outputs& kept, const Contrast& contrast,
                  Arena& arena) const {
  const Pass& pass = modulated.pass;
  Turns t = start(pass, modulated.x, arena);
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    const Place::Block block(layer_[i]);
    residuals_[i].learn(pass_of(pass, i), source(t, i), target(t, i), kept.residuals[i], contrast,
                        beside_of(modulated.beside, i), arena);
    turn(t);
  }
  modulated.x = join(pass, t, arena);
  learn_final_norm(pass, kept.final_norm, modulated.x, contrast.scale, arena);
}

void Stack::learn_beside(Compared& modulated, Compared& standard, const Contrast& contrast,
                         Arena& arena) const {
  const Pass& pass = modulated.pass;
  Turns t = start(pass, modulated.x, arena);
  Turns s = start(pass, standard.x, arena);
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    const Place::Block block(layer_[i]);
    const Arena::Frame frame(arena);
    const Pass own = pass_of(standard.pass, i);
    const ResidualOutputs outputs = residuals_[i].take_outputs(own, target(s, i), arena);
    residuals_[i].observe(own, source(s, i), target(s, i), outputs, contrast,
                          beside_of(standard.beside, i), arena);
    residuals_[i].learn(pass_of(pass, i), source(t, i), target(t, i), outputs, contrast,
                        beside_of(modulated.beside, i), arena);
    turn(s);
    turn(t);
  }
  modulated.x = join(pass, t, arena);
  standard.x = finish(pass, join(pass, s, arena), nullptr, arena);
  learn_final_norm(pass, standard.x, modulated.x, contrast.scale, arena);
}

}  // namespace longspan
