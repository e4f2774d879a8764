// A multi-layer perceptron without its last layer, which is the head:
//
//   h_0 = x,   h_l = dropout(f(h_{l−1}·W_lᵀ + b_l))
//
// MACCs rows·in·out of each layer in each phase, but none for the signal to x.
#pragma once

#include <string>
#include <vector>

#include "longspan/layers/branch.h"
#include "longspan/layers/linear.h"
#include "longspan/models/block_signals.h"
#include "longspan/models/watch.h"

namespace longspan {

struct MlpConfig {
  std::size_t inputs = 0;
  std::size_t hidden = 0;  // width of every layer
  std::size_t layers = 1;
  Activation activation = Activation::kRelu;
  bool bias = true;
  float dropout = 0.0F;
};

class Mlp {
 public:
  static constexpr std::string_view kMeter = "hidden";
  // Reused from step to step.
  struct Tape {
    ConstMatrix x;
    std::vector<Matrix> z;
    std::vector<Matrix> h;
  };
  // What a rule that compares two passes keeps of the standard one: the h of every layer.
  using Outputs = std::vector<Matrix>;

  Mlp(Parameters& parameters, const std::string& name, const MlpConfig& config);

  // Of the last layer, [rows, hidden].
  Matrix forward(const Pass& pass, ConstMatrix x, Tape& tape, Arena& arena) const;
  // Spoils g = ∂L/∂h of the last layer. Adds to the gradients. With `signals` no layer sends any.
  void backward(const Pass& pass, const Tape& tape, Matrix g,
                const BlockSignals* signals = nullptr) const;
  // Nothing kept but the last layer's output.
  Matrix infer(const Pass& pass, ConstMatrix x, Arena& arena, Watch* watch = nullptr) const;

  // The standard pass, which keeps every h; the modulated one, compared with it or with a standard
  // pass that runs beside it. Every W learns from scale·(h − h_err) and its modulated input.
  Matrix observe(const Pass& pass, ConstMatrix x, Outputs& outputs, Arena& arena) const;
  Matrix learn(const Pass& pass, ConstMatrix x, const Outputs& kept, float scale,
               Arena& arena) const;
  // `standard` is the input of that pass, and on return its output.
  Matrix learn_beside(const Pass& pass, ConstMatrix x, ConstMatrix& standard, float scale,
                      Arena& arena) const;

  const MlpConfig& config() const { return config_; }

 private:
  bool drops(const Pass& pass) const { return pass.training && config_.dropout > 0.0F; }
  void run_layer(const Pass& pass, std::size_t layer, ConstMatrix x, Matrix z, Matrix h) const;
  void drop(const Pass& pass, std::size_t layer, Matrix x) const;
  void learn_layer(std::size_t layer, ConstMatrix x, Matrix standard, ConstMatrix modulated,
                   float scale) const;

  MlpConfig config_;
  std::vector<Linear> layers_;
};

}  // namespace longspan
