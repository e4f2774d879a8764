#include "longspan/layers/feed_forward.h"

#include "longspan/kernels/rows/vector.h"

namespace longspan {

FeedForward::FeedForward(Parameters& parameters, const std::string& name,
                         const FeedForwardConfig& config)
    : config_(config),
      in_(parameters, name + ".in", config.d_model, hidden(), config.bias, config.deviation),
      out_(parameters, name + ".out", config.d_ff, config.d_model, config.bias,
           config.output_deviation) {}

BranchSaved FeedForward::save(const Pass& pass, Arena& arena) const {
  BranchSaved saved;
  saved.projected = arena.matrix(pass.rows(), hidden());
  saved.combined = arena.matrix(pass.rows(), config_.d_ff);
  return saved;
}

void FeedForward::forward(const Pass& pass, ConstMatrix x, Matrix y, const BranchSaved* saved,
                          Arena& arena) const {
  const Arena::Frame frame(arena);
  if (config_.gated) {
    const Matrix z = saved != nullptr ? saved->projected : arena.matrix(pass.rows(), hidden());
    const Matrix h = saved != nullptr && saved->combined.data != nullptr
                         ? saved->combined
                         : arena.matrix(pass.rows(), config_.d_ff);
    in_.forward(x, z);
    gated_forward(config_.activation, z.slice_cols(0, config_.d_ff),
                  z.slice_cols(config_.d_ff, config_.d_ff), h);
    out_.forward(h, y);
    return;
  }
  const Matrix h = saved != nullptr ? saved->combined : arena.matrix(pass.rows(), config_.d_ff);
  in_.forward(x, config_.activation, saved != nullptr ? saved->projected : Matrix{}, h);
  out_.forward(h, y);
}

BranchSignals FeedForward::backward(const Pass& pass, const BranchSaved& saved, ConstMatrix dy,
                                    Matrix dx, Arena& arena) const {
  const std::size_t f = config_.d_ff;
  BranchSignals signals;
  if (config_.gated) {
    signals.projected = arena.matrix(pass.rows(), hidden());
    const Arena::Frame frame(arena);
    const Matrix dh = arena.matrix(pass.rows(), f);
    out_.backward(dy, dh);
    gated_backward(config_.activation, saved.projected.slice_cols(0, f),
                   saved.projected.slice_cols(f, f), dh, signals.projected.slice_cols(0, f),
                   signals.projected.slice_cols(f, f));
  } else {
    signals.projected = arena.matrix(pass.rows(), f);
    out_.backward(dy, signals.projected);
    activation_backward(config_.activation, saved.projected, signals.projected, signals.projected);
  }
  in_.backward(signals.projected, dx);
  return signals;
}

void FeedForward::accumulate(const Pass& /*pass*/, ConstMatrix x, const BranchSaved& saved,
                             ConstMatrix dy, const BranchSignals& signals) const {
  out_.accumulate(saved.combined, dy);
  in_.accumulate(x, signals.projected);
}

BranchSaved FeedForward::save_outputs(const Pass& pass, Arena& arena) const {
  BranchSaved saved;
  if (config_.gated) {
    saved.projected = arena.matrix(pass.rows(), hidden());
  } else {
    saved.combined = arena.matrix(pass.rows(), config_.d_ff);
  }
  return saved;
}

BranchSaved FeedForward::save_modulated(const Pass& pass, Arena& arena) const {
  BranchSaved saved;
  if (config_.gated) saved.projected = arena.matrix(pass.rows(), hidden());
  saved.combined = arena.matrix(pass.rows(), config_.d_ff);
  return saved;
}

BranchSignals FeedForward::contrast(const Pass& /*pass*/, const BranchSaved& standard,
                                    const BranchSaved& modulated, float scale,
                                    Arena& /*arena*/) const {
  BranchSignals signals;
  signals.projected = config_.gated ? standard.projected : standard.combined;
  difference(scale, signals.projected, config_.gated ? modulated.projected : modulated.combined,
             signals.projected);
  return signals;
}

}  // namespace longspan
