#include "longspan/layers/feed_forward.h"

#include "longspan/kernels/rows/vector.h"

namespace longspan {

FeedForward::FeedForward(Parameters& parameters, const std::string& name,
                         const FeedForwardConfig& config)
    : config_(config),
      in_(parameters, name + ".in", config.d_model, hidden(), config.bias, config.deviation),
      out_(parameters, name + ".out", config.d_ff, config.d_model, config.bias,
           config.output_deviation, Role::kBranchOutput) {}

Kept FeedForward::save(const Pass& pass, Arena& arena) const {
  Kept saved;
  saved[kZ] = arena.matrix(pass.rows(), hidden());
  saved[kH] = arena.matrix(pass.rows(), config_.d_ff);
  return saved;
}

void FeedForward::forward(const BranchForward& call) const {
  const Arena::Frame frame(call.arena);
  const std::size_t rows = call.pass.rows();
  const std::size_t f = config_.d_ff;
  Kept kept;
  if (call.saved != nullptr) kept = *call.saved;
  if (config_.gated && kept[kZ].data == nullptr) kept[kZ] = call.arena.matrix(rows, hidden());
  if (kept[kH].data == nullptr) kept[kH] = call.arena.matrix(rows, f);
  if (config_.gated) {
    in_.forward(call.x, kept[kZ]);
    gated_forward(config_.activation, kept[kZ].slice_cols(0, f), kept[kZ].slice_cols(f, f),
                  kept[kH]);
  } else {
    in_.forward(call.x, config_.activation, kept[kZ], kept[kH]);
  }
  out_.forward(kept[kH], call.y);
}

Kept FeedForward::backward(const BranchBackward& call) const {
  const std::size_t rows = call.pass.rows();
  const std::size_t f = config_.d_ff;
  Kept signals;
  const Matrix dz = signals[kZ] = call.arena.matrix(rows, hidden());
  const Matrix z = call.saved[kZ];
  if (config_.gated) {
    const Arena::Frame frame(call.arena);
    const Matrix dh = call.arena.matrix(rows, f);
    out_.backward(call.dy, dh);
    gated_backward(config_.activation, z.slice_cols(0, f), z.slice_cols(f, f), dh,
                   dz.slice_cols(0, f), dz.slice_cols(f, f));
  } else {
    out_.backward(call.dy, dz);
    activation_backward(config_.activation, z, dz, dz);
  }
  in_.backward(dz, call.dx);
  return signals;
}

void FeedForward::accumulate(const BranchUpdate& call) const {
  out_.accumulate(call.saved[kH], call.dy);
  in_.accumulate(call.x, call.signals[kZ]);
}

Kept FeedForward::save_outputs(const Pass& pass, Arena& arena) const {
  Kept saved;
  if (config_.gated) {
    saved[kZ] = arena.matrix(pass.rows(), hidden());
  } else {
    saved[kH] = arena.matrix(pass.rows(), config_.d_ff);
  }
  return saved;
}

Kept FeedForward::save_modulated(const Pass& pass, Arena& arena) const {
  Kept saved;
  if (config_.gated) saved[kZ] = arena.matrix(pass.rows(), hidden());
  saved[kH] = arena.matrix(pass.rows(), config_.d_ff);
  return saved;
}

Kept FeedForward::contrast(const Pass& /*pass*/, const Kept& standard, const Kept& modulated,
                           float scale, const Beside& /*beside*/, Arena& /*arena*/) const {
  const Part compared = config_.gated ? kZ : kH;
  Kept signals;
  signals[kZ] = standard[compared];
  difference(scale, signals[kZ], modulated[compared], signals[kZ]);
  return signals;
}

}  // namespace longspan
