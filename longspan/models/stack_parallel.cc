// Parallel layers:
//
//   y = x + Σ_i f_i(norm_i(x)),   or all branches read the first one's norm
//
//   g = ∂L/∂y:   ∂L/∂x = g + Σ_i norm_i'(f_i'(g)),   with one norm g + norm'(Σ_i f_i'(g))
//
// The norms and the sum are filed as everywhere.
#include "longspan/kernels/rows/vector.h"
#include "longspan/models/stack.h"

namespace longspan {

void Stack::run_parallel(const Pass& pass, std::size_t layer, ConstMatrix x, Matrix y,
                         ResidualSaved* saved, const StackBeside& beside, Arena& arena) const {
  const std::size_t first = first_[layer];
  for (std::size_t i = first; saved != nullptr && i < first_[layer + 1]; ++i) {
    const Place::Scope place(residuals_[i].branch().meter_name(), Phase::kForward);
    saved[i - first] = residuals_[i].save(pass_of(pass, i), arena);
  }
  const Arena::Frame frame(arena);
  const Matrix s = arena.matrix(pass.rows(), width());
  ConstMatrix normalized;
  for (std::size_t i = first; i < first_[layer + 1]; ++i) {
    const Residual& residual = residuals_[i];
    ResidualSaved* own = saved == nullptr ? nullptr : saved + (i - first);
    if (residual.normed()) normalized = residual.read(pass, x, own, arena);
    residual.run_branch(pass_of(pass, i), normalized, s, own, beside_of(beside, i), arena);
    const Place::Scope scope(Residual::kNormMeter, Phase::kForward);
    add(i == first ? x : ConstMatrix(y), s, y);
  }
}

void Stack::backward_parallel(const Pass& pass, std::size_t layer, const ResidualSaved* saved,
                              Matrix g, const StackBeside& beside, Arena& arena) const {
  const std::size_t first = first_[layer];
  const Arena::Frame frame(arena);
  const Matrix dx = arena.matrix(pass.rows(), width());
  const Matrix signal = arena.matrix(pass.rows(), width());
  Matrix sum;  // of those that share a norm
  copy(g, dx);
  for (std::size_t i = first_[layer + 1]; i-- > first;) {
    const Residual& residual = residuals_[i];
    const ResidualSaved& own = saved[i - first];
    residual.branch_signal(pass_of(pass, i), own, g, signal, beside_of(beside, i), arena);
    if (!residual.normed()) {
      const Place::Scope scope(Residual::kNormMeter, Phase::kBackward);
      if (sum.rows == 0) {
        sum = arena.matrix(pass.rows(), width());
        copy(signal, sum);
      } else {
        add(signal, sum, sum);
      }
      continue;
    }
    if (sum.rows > 0) {
      const Place::Scope scope(Residual::kNormMeter, Phase::kBackward);
      add(sum, signal, signal);
    }
    residual.norm_signal(own, signal, dx);
  }
  copy(dx, g);
}

}  // namespace longspan
