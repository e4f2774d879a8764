#include "longspan/layers/fourier_mixer.h"

#include "longspan/base/error.h"
#include "longspan/kernels/fourier/fourier.h"

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
  fourier_mix(call.pass.batch, call.x, call.y, call.arena);
}

Kept FourierMixer::backward(const BranchBackward& call) const {
  fourier_mix(call.pass.batch, call.dy, call.dx, call.arena);
  return {};
}

}  // namespace longspan
