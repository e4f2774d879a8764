#include "longspan/layers/short_convolution.h"

#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/layers/runs.h"

namespace longspan {

ShortConvolution::ShortConvolution(Parameters& parameters, const std::string& name,
                                   const ShortConvolutionConfig& config, const Channels& channels) {
  check_numbers("conv", config);
  taps_ = &parameters.declare(name + ".weight", config.width, channels.d_model,
                              Initializer::normal(channels.deviation), Role::kBranchOutput);
  if (channels.bias) {
    bias_ = &parameters.declare(name + ".bias", channels.d_model, Initializer::zeros(),
                                Role::kBranchOutput);
  }
}

void ShortConvolution::check(const Pass& pass) const {
  require(pass.history_length == 0,
          "[conv] cannot read earlier segments; need attention with a history");
}

Convolution ShortConvolution::convolution(const Pass& pass) const {
  return {.sequences = {pass.length, pass.lengths},
          .taps = taps_->matrix(),
          .bias = bias_ == nullptr ? nullptr : bias_->value.data()};
}

void ShortConvolution::forward(const BranchForward& call) const {
  const DecodeCache* cache = call.beside.cache;
  if (cache == nullptr) {
    return for_each_run(call.pass, [&](const Run& run) {
      convolve(convolution(run.pass), run.rows(call.x), run.rows(call.y));
    });
  }
  Convolution all = convolution(call.pass);
  require(cache->used + call.pass.length <= cache->capacity,
          "[decode] {} tokens do not fit behind {} in a cache of {}", call.pass.length, cache->used,
          cache->capacity);
  const Matrix before(cache->data, call.pass.batch * (taps_->rows - 1), taps_->cols);
  all.before = before;
  convolve(all, call.x, call.y);
  if (before.rows > 0) keep_last_rows(call.pass.length, call.x, before);
}

Kept ShortConvolution::backward(const BranchBackward& call) const {
  for_each_run(call.pass, [&](const Run& run) {
    Convolution back = convolution(run.pass);
    back.taps = taps_->backward_matrix();
    convolve_backward(back, run.rows(call.dy), run.rows(call.dx));
  });
  return {};
}

void ShortConvolution::accumulate(const BranchUpdate& call) const {
  if (!trained()) return;
  for_each_run(call.pass, [&](const Run& run) {
    convolve_update(convolution(run.pass), run.rows(call.x), run.rows(call.dy),
                    taps_->gradient_matrix(), bias_ == nullptr ? nullptr : bias_->gradient.data());
  });
}

void ShortConvolution::size_cache(std::size_t /*context*/, DecodeCache& cache) const {
  const std::size_t each = (taps_->rows - 1) * taps_->cols;
  cache.floats = cache.zeroed = cache.batch * each;
  cache.parts[0] = {.each = each};
}

}  // namespace longspan
