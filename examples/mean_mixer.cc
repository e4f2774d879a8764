#include "examples/mean_mixer.h"

#include "longspan/base/error.h"
#include "longspan/kernels/rows/sequence.h"

namespace longspan {

MeanMixer::MeanMixer(bool causal) {
  require(!causal, "[mean] every token sees the whole sequence; need an encoder");
}

// Layers touch no element themselves: every loop over data is a kernel, which the same code can
// call dry.
void MeanMixer::forward(const BranchForward& call) const {
  const Arena::Frame frame(call.arena);
  const Matrix mean = call.arena.matrix(call.pass.batch, call.x.cols);
  mean_rows(call.x, {call.pass.length, call.pass.lengths}, mean);
  fill(call.y, 0.0F);
  add_mapped_rows(mean, {.divide = call.pass.length}, call.y);
}

Kept MeanMixer::backward(const BranchBackward& call) const {
  const Arena::Frame frame(call.arena);
  const Matrix dmean = call.arena.matrix(call.pass.batch, call.dx.cols);
  fill(dmean, 0.0F);
  sum_mapped_rows(call.dy, {.divide = call.pass.length}, dmean);
  spread_mean(dmean, {call.pass.length, call.pass.lengths}, call.dx);
  return {};
}

}  // namespace longspan
