// A standard and a modulated pass through a residual sublayer, and what it learns from them.
#include "longspan/kernels/rows/vector.h"
#include "longspan/layers/residual.h"

namespace longspan {

namespace {
constexpr std::string_view kNormMeter = "add & norm";
}

ResidualOutputs Residual::take_outputs(const Pass& pass, Matrix y, Arena& arena) const {
  const Place::Scope place(branch_->meter_name(), Phase::kForward);
  ResidualOutputs outputs;
  if (!norm_->frozen()) outputs.norm = post_norm() ? y : arena.matrix(pass.rows(), d_model_);
  if (branch_->trained()) {
    outputs.branch = branch_->save_outputs(pass, arena);
    outputs.branch_output = arena.matrix(pass.rows(), d_model_);
  }
  return outputs;
}

void Residual::combine(const Pass& pass, ConstMatrix x, Matrix y, const Norm::Saved& norm_saved,
                       Matrix normalized, Matrix s, const BranchSaved* branch_saved,
                       Arena& arena) const {
  if (!post_norm()) norm_forward(x, normalized, norm_saved, Phase::kForward);
  branch_forward(pass, post_norm() ? x : normalized, s, branch_saved, arena);
  const Place::Scope scope(kNormMeter, Phase::kForward);
  if (wiring_ == Wiring::kReversible) {
    add(s, y, y);
  } else {
    add(x, s, y);
  }
  if (pass.compares_sums) copy(y, s);
  if (post_norm()) norm_->forward(y, y, norm_saved);
}

void Residual::observe(const Pass& pass, ConstMatrix x, Matrix y, const ResidualOutputs& outputs,
                       Arena& arena) const {
  const Place::Scope place(branch_->meter_name(), Phase::kForward);
  const Arena::Frame frame(arena);
  const bool own = !post_norm() && norm_->frozen();
  const Matrix normalized = own ? arena.matrix(pass.rows(), d_model_) : outputs.norm;
  const bool trained = branch_->trained();
  const Matrix s = trained ? outputs.branch_output : arena.matrix(pass.rows(), d_model_);
  combine(pass, x, y, {}, normalized, s, trained ? &outputs.branch : nullptr, arena);
}

void Residual::learn(const Pass& pass, ConstMatrix x, Matrix y, const ResidualOutputs& outputs,
                     float scale, Arena& arena) const {
  const Place::Scope place(branch_->meter_name(), Phase::kForward);
  const Arena::Frame frame(arena);
  Norm::Saved norm_saved;
  if (!norm_->frozen()) norm_saved = norm_->save(pass.rows(), arena);
  Matrix normalized;
  if (!post_norm()) normalized = arena.matrix(pass.rows(), d_model_);
  const Matrix s = arena.matrix(pass.rows(), d_model_);
  const bool trained = branch_->trained();
  BranchSaved saved;
  if (trained) saved = branch_->save_modulated(pass, arena);
  combine(pass, x, y, norm_saved, normalized, s, trained ? &saved : nullptr, arena);
  if (trained) {
    BranchSignals signals;
    {
      const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
      difference(scale, outputs.branch_output, s, outputs.branch_output);
      signals = branch_->contrast(pass, outputs.branch, saved, scale, arena);
    }
    const Place::Scope scope(branch_->meter_name(), Phase::kUpdate);
    branch_->accumulate(pass, post_norm() ? x : normalized, saved, outputs.branch_output, signals);
  }
  if (norm_->frozen()) return;
  {
    const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
    difference(scale, outputs.norm, post_norm() ? y : normalized, s);
  }
  const Place::Scope scope(kNormMeter, Phase::kUpdate);
  norm_->accumulate(norm_saved, s);
}

}  // namespace longspan
