// A standard and a modulated pass through a residual sublayer, and what it learns from them.
#include "longspan/base/error.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/layers/residual.h"

namespace longspan {

namespace {}

const Contrastive& Residual::compared() const {
  const Contrastive* branch = branch_->contrastive();
  require(branch != nullptr,
          "[rule] the outputs of {} cannot be compared between two passes; need backpropagation",
          branch_->meter_name());
  return *branch;
}

ResidualOutputs Residual::take_outputs(const Pass& pass, Matrix y, Arena& arena) const {
  require(norm_ != nullptr &&
              (post_norm() || wiring_ == Wiring::kPreNorm || wiring_ == Wiring::kReversible),
          "[rule] two passes are compared in layers with pre, post or reversible wiring and their "
          "norms; these are {}{}",
          Choice<Wiring>(wiring_).name(), norm_ == nullptr ? " without one" : "");
  const Place::Scope place(branch_->meter_name(), Phase::kForward);
  ResidualOutputs outputs;
  if (!norm_->frozen()) outputs.norm = post_norm() ? y : arena.matrix(pass.rows(), d_model_);
  if (branch_->trained()) {
    outputs.branch = compared().save_outputs(pass, arena);
    outputs.branch_output = arena.matrix(pass.rows(), d_model_);
  }
  return outputs;
}

void Residual::combine(const BranchForward& call, Matrix y, const Norm::Saved& norm_saved,
                       Matrix normalized, const Contrast& contrast) const {
  const ConstMatrix x = call.x;
  if (!post_norm()) norm_forward(x, normalized, norm_saved);
  branch_forward(
      {call.pass, post_norm() ? x : normalized, call.y, call.saved, call.beside, call.arena});
  const Place::Scope scope(kNormMeter, Phase::kForward);
  if (wiring_ == Wiring::kReversible) {
    add(call.y, y, y);
  } else {
    add(x, call.y, y);
  }
  if (contrast.sums) copy(y, call.y);
  if (post_norm()) norm_->forward(y, y, norm_saved);
}

void Residual::observe(const Pass& pass, ConstMatrix x, Matrix y, const ResidualOutputs& outputs,
                       const Contrast& contrast, const Beside& beside, Arena& arena) const {
  const Place::Scope place(branch_->meter_name(), Phase::kForward);
  const Arena::Frame frame(arena);
  const bool own = !post_norm() && norm_->frozen();
  const Matrix normalized = own ? arena.matrix(pass.rows(), d_model_) : outputs.norm;
  const bool trained = branch_->trained();
  const Matrix s = trained ? outputs.branch_output : arena.matrix(pass.rows(), d_model_);
  combine({pass, x, s, trained ? &outputs.branch : nullptr, beside, arena}, y, {}, normalized,
          contrast);
}

void Residual::learn(const Pass& pass, ConstMatrix x, Matrix y, const ResidualOutputs& outputs,
                     const Contrast& contrast, const Beside& beside, Arena& arena) const {
  const Place::Scope place(branch_->meter_name(), Phase::kForward);
  const Arena::Frame frame(arena);
  Norm::Saved norm_saved;
  if (!norm_->frozen()) norm_saved = norm_->save(pass.rows(), arena);
  Matrix normalized;
  if (!post_norm()) normalized = arena.matrix(pass.rows(), d_model_);
  const Matrix s = arena.matrix(pass.rows(), d_model_);
  const bool trained = branch_->trained();
  Kept saved;
  if (trained) saved = compared().save_modulated(pass, arena);
  combine({pass, x, s, trained ? &saved : nullptr, beside, arena}, y, norm_saved, normalized,
          contrast);
  if (trained) {
    Kept signals;
    {
      const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
      difference(contrast.scale, outputs.branch_output, s, outputs.branch_output);
      signals = compared().contrast(pass, outputs.branch, saved, contrast.scale, beside, arena);
    }
    const Place::Scope scope(branch_->meter_name(), Phase::kUpdate);
    branch_->accumulate(
        {pass, post_norm() ? x : normalized, saved, outputs.branch_output, signals, beside});
  }
  if (norm_->frozen()) return;
  {
    const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
    difference(contrast.scale, outputs.norm, post_norm() ? y : normalized, s);
  }
  const Place::Scope scope(kNormMeter, Phase::kUpdate);
  norm_->accumulate(norm_saved, s);
}

}  // namespace longspan
