#include "longspan/layers/residual.h"

#include <utility>

#include "longspan/kernels/rows/vector.h"

namespace longspan {

Residual::Residual(std::unique_ptr<Branch> branch, ResidualNorms norms, Wiring wiring,
                   std::size_t d_model, float dropout)
    : branch_(std::move(branch)),
      norm_(std::move(norms.in)),
      out_norm_(std::move(norms.out)),
      wiring_(wiring),
      d_model_(d_model),
      dropout_(branch_->drops_output() ? dropout : 0.0F) {}

ResidualSaved Residual::save(const Pass& pass, Arena& arena) const {
  ResidualSaved saved;
  if (norm_ != nullptr) saved.norm = norm_->save(pass.rows(), arena);
  if (out_norm_ != nullptr) saved.out_norm = out_norm_->save(pass.rows(), arena);
  const bool reads_other = wiring_ == Wiring::kParallelShared && norm_ == nullptr;
  if (!reads_input() && !reads_other) saved.normalized = arena.matrix(pass.rows(), d_model_);
  saved.branch_input = saved.normalized;
  saved.branch = branch_->save(pass, arena);
  return saved;
}

void Residual::branch_forward(const BranchForward& call) const {
  {
    const Place::Scope scope(branch_->meter_name(), Phase::kForward);
    branch_->forward(call);
  }
  if (drops(call.pass)) apply_dropout(call.pass, call.y, call.y, Phase::kForward);
}

void Residual::branch_backward(const Pass& pass, const ResidualSaved& saved, ConstMatrix dy,
                               Matrix dx, const Beside& beside, Arena& arena) const {
  const Arena::Frame frame(arena);
  if (drops(pass)) {
    const Matrix dropped = arena.matrix(pass.rows(), d_model_);
    apply_dropout(pass, dy, dropped, Phase::kBackward);
    dy = dropped;
  }
  Kept signals;
  {
    const Place::Scope scope(branch_->meter_name(), Phase::kBackward);
    signals = branch_->backward({pass, saved.branch, dy, dx, beside, arena});
  }
  const Place::Scope scope(branch_->meter_name(), Phase::kUpdate);
  branch_->accumulate({pass, saved.branch_input, saved.branch, dy, signals, beside});
}

void Residual::apply_dropout(const Pass& pass, ConstMatrix x, Matrix y, Phase phase) const {
  const Place::Scope scope(kNormMeter, phase);
  dropout({dropout_, derive(pass.key, "residual")}, x, y);
}

void Residual::norm_forward(ConstMatrix x, Matrix y, const Norm::Saved& saved) const {
  const Place::Scope scope(kNormMeter, Phase::kForward);
  if (norm_ == nullptr) return copy(x, y);
  norm_->forward(x, y, saved);
}

void Residual::norm_backward(const Norm::Saved& saved, ConstMatrix dy, Matrix dx, bool add) const {
  if (norm_ == nullptr) {
    const Place::Scope scope(kNormMeter, Phase::kBackward);
    return longspan::add(dy, dx, dx);
  }
  norm_back(*norm_, saved, dy, dx, add);
}

void Residual::norm_back(const Norm& norm, const Norm::Saved& saved, ConstMatrix dy, Matrix dx,
                         bool add) {
  {
    const Place::Scope scope(kNormMeter, Phase::kUpdate);
    norm.accumulate(saved, dy);
  }
  const Place::Scope scope(kNormMeter, Phase::kBackward);
  norm.backward(saved, dy, dx, add);
}

void Residual::forward(const Pass& pass, ConstMatrix x, Matrix y, ResidualSaved* saved,
                       const Beside& beside, Arena& arena) const {
  const Place::Scope place(branch_->meter_name(), Phase::kForward);
  if (saved != nullptr) *saved = save(pass, arena);
  const Kept* branch_saved = saved == nullptr ? nullptr : &saved->branch;
  const Norm::Saved norm_saved = saved == nullptr ? Norm::Saved{} : saved->norm;
  const Arena::Frame frame(arena);
  if (reads_input()) {
    if (saved != nullptr) saved->branch_input = x;
    branch_forward({pass, x, y, branch_saved, beside, arena});
    const Place::Scope scope(kNormMeter, Phase::kForward);
    if (post_norm()) {
      add(x, y, y);
      norm_->forward(y, y, norm_saved);
    } else {
      norm_->forward(y, y, norm_saved);
      add(x, y, y);
    }
    return;
  }
  const Matrix normalized =
      saved == nullptr ? arena.matrix(pass.rows(), d_model_) : saved->normalized;
  norm_forward(x, normalized, norm_saved);
  branch_forward({pass, normalized, y, branch_saved, beside, arena});
  const Place::Scope scope(kNormMeter, Phase::kForward);
  if (out_norm_ != nullptr) {
    out_norm_->forward(y, y, saved == nullptr ? Norm::Saved{} : saved->out_norm);
  }
  add(x, y, y);
}

void Residual::backward(const Pass& pass, const ResidualSaved& saved, Matrix g,
                        const Beside& beside, Arena& arena) const {
  const Place::Scope place(branch_->meter_name(), Phase::kBackward);
  const Arena::Frame frame(arena);
  const Matrix t = arena.matrix(pass.rows(), d_model_);
  const auto add_to_signal = [&](Matrix x) {
    const Place::Scope scope(kNormMeter, Phase::kBackward);
    add(x, g, g);
  };
  if (post_norm()) {
    norm_backward(saved.norm, g, g, /*add=*/false);
    branch_backward(pass, saved, g, t, beside, arena);
    return add_to_signal(t);
  }
  ConstMatrix dy = g;  // at the branch's output
  if (wiring_ == Wiring::kReordered || out_norm_ != nullptr) {
    const Matrix before = arena.matrix(pass.rows(), d_model_);
    const bool sandwich = out_norm_ != nullptr;
    norm_back(sandwich ? *out_norm_ : *norm_, sandwich ? saved.out_norm : saved.norm, g, before,
              /*add=*/false);
    dy = before;
  }
  branch_backward(pass, saved, dy, t, beside, arena);
  if (wiring_ == Wiring::kReordered) return add_to_signal(t);
  norm_backward(saved.norm, t, g, /*add=*/true);
}

ConstMatrix Residual::read(const Pass& pass, ConstMatrix x, const ResidualSaved* saved,
                           Arena& arena) const {
  const Place::Scope place(branch_->meter_name(), Phase::kForward);
  const Matrix normalized =
      saved == nullptr ? arena.matrix(pass.rows(), d_model_) : saved->normalized;
  norm_forward(x, normalized, saved == nullptr ? Norm::Saved{} : saved->norm);
  return normalized;
}

void Residual::run_branch(const Pass& pass, ConstMatrix normalized, Matrix y, ResidualSaved* saved,
                          const Beside& beside, Arena& arena) const {
  const Place::Scope place(branch_->meter_name(), Phase::kForward);
  if (saved != nullptr) saved->branch_input = normalized;
  const Arena::Frame frame(arena);
  branch_forward({pass, normalized, y, saved == nullptr ? nullptr : &saved->branch, beside, arena});
}

void Residual::add_to(const Pass& pass, ConstMatrix source, Matrix target, const Beside& beside,
                      Arena& arena) const {
  const Place::Scope place(branch_->meter_name(), Phase::kForward);
  const Arena::Frame frame(arena);
  const Matrix normalized = arena.matrix(pass.rows(), d_model_);
  const Matrix s = arena.matrix(pass.rows(), d_model_);
  norm_forward(source, normalized, {});
  branch_forward({pass, normalized, s, nullptr, beside, arena});
  const Place::Scope scope(kNormMeter, Phase::kForward);
  add(s, target, target);
}

void Residual::undo(const Pass& pass, const Streams& streams, const Beside& beside,
                    Arena& arena) const {
  const Place::Scope place(branch_->meter_name(), Phase::kBackward);
  const Arena::Frame frame(arena);
  const ResidualSaved saved = save(pass, arena);
  const Matrix s = arena.matrix(pass.rows(), d_model_);
  {
    const Place::Again again;
    norm_forward(streams.source, saved.normalized, saved.norm);
    branch_forward({pass, saved.normalized, s, &saved.branch, beside, arena});
    const Place::Scope scope(kNormMeter, Phase::kForward);
    subtract(streams.target, s, streams.target);
  }
  branch_backward(pass, saved, streams.target_gradient, s, beside, arena);
  norm_backward(saved.norm, s, streams.source_gradient, /*add=*/true);
}

}  // namespace longspan
