#include "longspan/layers/pair_layers.h"

#include "longspan/base/place.h"
#include "longspan/kernels/rows/pairs.h"
#include "longspan/layers/head.h"

namespace longspan {

PairLayers::PairLayers(Parameters& parameters, const std::string& name, const Config& config)
    : first_(parameters, name + ".first", 4 * config.d_model, config.width, true, config.deviation,
             Role::kHead),
      second_(parameters, name + ".second", config.width, output_width(config.width), true,
              config.deviation, Role::kHead) {}

PairLayers::Saved PairLayers::forward(ConstMatrix x, bool saves, Arena& arena) const {
  const std::size_t pairs = x.rows / 2;
  Saved saved;
  saved.x = x;
  saved.u = arena.matrix(pairs, first_.in());
  pair_rows(x, saved.u);
  if (saves) saved.z_first = arena.matrix(pairs, first_.out());
  saved.h = arena.matrix(pairs, first_.out());
  first_.forward(saved.u, Activation::kRelu, saved.z_first, saved.h);
  if (saves) saved.z_second = arena.matrix(pairs, second_.out());
  saved.t = arena.matrix(pairs, second_.out());
  second_.forward(saved.h, Activation::kRelu, saved.z_second, saved.t);
  return saved;
}

void PairLayers::backward(const Saved& saved, Matrix dt, Matrix dx, Arena& arena) const {
  const Arena::Frame frame(arena);
  const Matrix dh = arena.matrix(saved.h.rows, saved.h.cols);
  const Matrix du = arena.matrix(saved.u.rows, saved.u.cols);
  {
    const Place::Scope scope(Head::kTransformMeter, Phase::kBackward);
    activation_backward(Activation::kRelu, saved.z_second, dt, dt);
    second_.backward(dt, dh);
    activation_backward(Activation::kRelu, saved.z_first, dh, dh);
    first_.backward(dh, du);
    pair_rows_backward(saved.x, du, dx);
  }
  const Place::Scope scope(Head::kTransformMeter, Phase::kUpdate);
  second_.accumulate(saved.h, dt);
  first_.accumulate(saved.u, dh);
}

}  // namespace longspan
