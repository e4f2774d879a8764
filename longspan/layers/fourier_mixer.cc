#include "longspan/layers/fourier_mixer.h"

#include "longspan/base/error.h"
#include "longspan/kernels/fourier/fourier.h"
#include "longspan/layers/runs.h"

namespace longspan {

FourierMixer::FourierMixer(const FourierMixerConfig& config) {
  require(!config.causal,
          "[fnet] every position reads every other, so it cannot be causal; need an encoder");
  require(!config.cross,
          "[fnet] mixes within one sequence; cross-attention needs an attention mechanism");
}

void FourierMixer::check(const Pass& pass) const {
  require(pass.history_length == 0,
          "[fnet] cannot read earlier segments; need attention with a history");
}

void FourierMixer::forward(const BranchForward& call) const {
  require(call.beside.cache == nullptr,
          "[fnet] cannot decode token by token; need causal self-attention");
  for_each_run(call.pass, [&](const Run& run) {
    fourier_mix(run.pass.batch, run.rows(call.x), run.rows(call.y), call.arena);
  });
}

Kept FourierMixer::backward(const BranchBackward& call) const {
  for_each_run(call.pass, [&](const Run& run) {
    fourier_mix(run.pass.batch, run.rows(call.dy), run.rows(call.dx), call.arena);
  });
  return {};
}

}  // namespace longspan
