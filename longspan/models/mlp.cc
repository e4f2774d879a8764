#include "longspan/models/mlp.h"

#include <array>
#include <cmath>

#include "longspan/kernels/rows/vector.h"

namespace longspan {

Mlp::Mlp(Parameters& parameters, const std::string& name, const MlpConfig& config)
    : config_(config) {
  for (std::size_t i = 0; i < config.layers; ++i) {
    const Place::Block block(i);
    const std::size_t in = i == 0 ? config.inputs : config.hidden;
    // He et al. (2015): the variance of ReLU layers stays what it is.
    layers_.emplace_back(parameters, name + "." + std::to_string(i), in, config.hidden, config.bias,
                         std::sqrt(2.0F / static_cast<float>(in)), Role::kHidden);
  }
}

void Mlp::drop(const Pass& pass, std::size_t layer, Matrix x) const {
  if (drops(pass)) dropout({config_.dropout, derive(pass.key, layer)}, x, x);
}

void Mlp::run_layer(const Pass& pass, std::size_t layer, ConstMatrix x, Matrix z, Matrix h) const {
  const Place::Scope scope(kMeter, Phase::kForward);
  layers_[layer].forward(x, config_.activation, z, h);
  drop(pass, layer, h);
}

Matrix Mlp::forward(const Pass& pass, ConstMatrix x, Tape& tape, Arena& arena) const {
  const Place::Scope place(kMeter, Phase::kForward);
  tape.x = x;
  tape.z.resize(layers_.size());
  tape.h.resize(layers_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    tape.z[i] = arena.matrix(pass.rows(), config_.hidden);
    tape.h[i] = arena.matrix(pass.rows(), config_.hidden);
    run_layer(pass, i, x, tape.z[i], tape.h[i]);
    x = tape.h[i];
  }
  return tape.h.back();
}

void Mlp::backward(const Pass& pass, const Tape& tape, Matrix g,
                   const BlockSignals* signals) const {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    if (signals != nullptr) signals->send(i, g);
    {
      const Place::Scope scope(kMeter, Phase::kBackward);
      drop(pass, i, g);
      activation_backward(config_.activation, tape.z[i], g, g);
    }
    {
      const Place::Scope scope(kMeter, Phase::kUpdate);
      layers_[i].accumulate(i == 0 ? tape.x : tape.h[i - 1], g);
    }
    if (i == 0) return;
    const Place::Scope scope(kMeter, Phase::kBackward);
    // The layer's own activations are used up: their memory takes the signal to its input.
    if (signals == nullptr) layers_[i].backward(g, tape.z[i]);
    g = tape.z[i];
  }
}

Matrix Mlp::infer(const Pass& pass, ConstMatrix x, Arena& arena, Watch* watch) const {
  const Place::Scope place(kMeter, Phase::kForward);
  std::array<Matrix, 2> turns;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (i < 2) turns[i] = arena.matrix(pass.rows(), config_.hidden);
    run_layer(pass, i, x, {}, turns[i % 2]);
    x = turns[i % 2];
    if (watch == nullptr) continue;
    const Place::Block block(i);
    watch->see(kMeter, x);
  }
  return turns[(layers_.size() - 1) % 2];
}

Matrix Mlp::observe(const Pass& pass, ConstMatrix x, Outputs& outputs, Arena& arena) const {
  const Place::Scope place(kMeter, Phase::kForward);
  outputs.resize(layers_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    outputs[i] = arena.matrix(pass.rows(), config_.hidden);
    run_layer(pass, i, x, {}, outputs[i]);
    x = outputs[i];
  }
  return outputs.back();
}

void Mlp::learn_layer(std::size_t layer, ConstMatrix x, Matrix standard, ConstMatrix modulated,
                      float scale) const {
  {
    const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
    difference(scale, standard, modulated, standard);
  }
  const Place::Scope scope(kMeter, Phase::kUpdate);
  layers_[layer].accumulate(x, standard);
}

Matrix Mlp::learn(const Pass& pass, ConstMatrix x, const Outputs& kept, float scale,
                  Arena& arena) const {
  const Place::Scope place(kMeter, Phase::kForward);
  std::array<Matrix, 2> turns;
  for (Matrix& t : turns) t = arena.matrix(pass.rows(), config_.hidden);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Matrix h = turns[i % 2];
    run_layer(pass, i, x, {}, h);
    learn_layer(i, x, kept[i], h, scale);
    x = h;
  }
  return turns[(layers_.size() - 1) % 2];
}

Matrix Mlp::learn_beside(const Pass& pass, ConstMatrix x, ConstMatrix& standard, float scale,
                         Arena& arena) const {
  const Place::Scope place(kMeter, Phase::kForward);
  std::array<Matrix, 4> turns;
  for (Matrix& t : turns) t = arena.matrix(pass.rows(), config_.hidden);
  const Matrix signal = arena.matrix(pass.rows(), config_.hidden);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Matrix a = turns[i % 2];
    const Matrix a_err = turns[2 + i % 2];
    run_layer(pass, i, standard, {}, a);
    run_layer(pass, i, x, {}, a_err);
    copy(a, signal);
    learn_layer(i, x, signal, a_err, scale);
    standard = a;
    x = a_err;
  }
  return turns[2 + (layers_.size() - 1) % 2];
}

}  // namespace longspan
