// A stack whose sequences change their length between its layers (stages.h).
#include <utility>

#include "longspan/models/stack.h"

namespace longspan {

void Stack::check_stages(const Pass& pass) const {
  const Dry dry;
  Arena arena = Arena::dry();
  StageRun run;
  stages_.begin(pass, arena, run);
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    residuals_[i].branch().check(stages_.pass_of(run, layer_[i]));
  }
}

// Training keeps all that a layer gives; otherwise two buffers of a stage take turns, and what
// later stages read of it stays in one.
Matrix Stack::run_stages(const Pass& pass, Matrix x, Tape* tape, const StackBeside& beside,
                         Arena& arena) const {
  StageRun& run = *beside.stages;
  stages_.begin(pass, arena, run);
  if (tape != nullptr) tape->residuals.resize(residuals_.size());
  Matrix other;
  for (std::size_t layer = 0; layer < layers(); ++layer) {
    const Place::Block block(layer);
    if (stages_.entry(layer) != Stages::Entry::kNone) other = {};
    x = stages_.enter(layer, x, run, arena);
    const Pass own = stages_.pass_of(run, layer);
    for (std::size_t i = first_[layer]; i < first_[layer + 1]; ++i) {
      const Place::Scope place(residuals_[i].branch().meter_name(), Phase::kForward);
      if (tape != nullptr || other.rows == 0) other = arena.matrix(own.rows(), width());
      residuals_[i].forward(pass_of(own, i), x, other,
                            tape == nullptr ? nullptr : &tape->residuals[i], beside_of(beside, i),
                            arena);
      std::swap(x, other);
      show(i, x, beside);
    }
  }
  return x;
}

Matrix Stack::backward_stages(Tape& tape, Matrix g, const StackBeside& beside, Arena& arena) const {
  const StageRun& run = *beside.stages;
  Matrix skip;
  for (std::size_t layer = layers(); layer-- > 0;) {
    const Place::Block block(layer);
    const Pass own = stages_.pass_of(run, layer);
    const Matrix unpooled = stages_.take_gradient(layer, run, width(), arena);
    for (std::size_t i = first_[layer + 1]; i-- > first_[layer];) {
      Beside by = beside_of(beside, i);
      by.context_gradient = unpooled;
      residuals_[i].backward(pass_of(own, i), tape.residuals[i], g, by, arena);
    }
    g = stages_.leave(layer, g, unpooled, skip, run, arena);
  }
  return g;
}

}  // namespace longspan
