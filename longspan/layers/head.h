// The head: from the last hidden states to logits.
//
//   p = x                         language modelling
//   p = x_first, or mean of x     classification, over each sequence's real tokens; or the last of
//                                 them, or the first of those with the largest id
//   t of two such p               classification of pairs (pair_layers.h), rows 2i and 2i + 1
//   t = norm(f(p·W_tᵀ + b_t))     else an optional transform (the norm too is optional)
//   logits = t·Wᵀ + b, or of a scale s and a cap c:  s·t·Wᵀ + b,  c·tanh(logits/c)
//
// The transform may narrow its input to the width of W. Instead of b, or beside it, a constant may
// be added that is not trained.
//
// The softmax layer proper, r rows to v outputs: r·d·v MACCs in each phase; its cross-entropy 5·r·v
// FLOPs forward and one per counted row backward.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "longspan/base/model_kind.h"
#include "longspan/kernels/rows/chosen_rows.h"
#include "longspan/layers/branch.h"
#include "longspan/layers/linear.h"
#include "longspan/layers/norm.h"
#include "longspan/layers/pair_layers.h"

namespace longspan {

struct HeadConfig {
  std::size_t d_model = 0;
  std::size_t outputs = 0;     // 0: none behind the transform
  std::optional<Pool> pool;    // of sequences; none: every token has an output
  std::size_t pair_width = 0;  // > 0: two pooled sequences have one output; no transform then
  bool transform = false;
  bool transform_bias = true;
  bool transform_activates = true;            // else it is a matrix alone
  Activation activation = Activation::kGelu;  // of the transform
  bool transform_norm = false;
  NormKind norm_kind = NormKind::kLayer;
  Norm::Learns norm_learns = {true, true};
  float epsilon = 1e-5F;
  std::size_t width = 0;  // behind the transform; 0: d_model
  float scale = 1.0F;     // s
  float cap = 0.0F;       // c; 0: none
  bool bias = false;
  bool constant_bias = false;
  float deviation = 0.02F;
};

class Head {
 public:
  static constexpr std::string_view kMeter = "softmax layer";
  static constexpr std::string_view kTransformMeter = "head";  // what transforms its input

  struct Saved {
    ConstMatrix input;  // what the transform saw: x, or the pooled rows
    Matrix z;
    Matrix h;
    Matrix transformed;
    Norm::Saved norm;
    PairLayers::Saved pairs;
    Matrix scaled;  // s·t
    Matrix capped;  // logits/c before the tanh
    Matrix logits;
    ConstMatrix last;  // what the output layer saw
  };

  // `tied`: the output layer's weight, or null for one of its own.
  Head(Parameters& parameters, const std::string& name, const HeadConfig& config, Parameter* tied);

  std::size_t rows(const Pass& pass) const {
    if (pairs_) return pass.batch / 2;
    return config_.pool ? pass.batch : pass.rows();
  }
  // Everything it writes is taken from the arena, kept or not. forward is transform, the matrix for
  // the logits, and score.
  Saved forward(const Pass& pass, ConstMatrix x, bool saves, Arena& arena) const;
  Saved transform(const Pass& pass, ConstMatrix x, bool saves, Arena& arena) const;
  void score(const Saved& saved, Matrix logits) const;
  bool caps() const { return config_.cap > 0.0F; }
  // Rules that compare two passes: the output layer learns from `signal`, the transform and its
  // norm from scale·(a − a_err), which takes the memory of `standard`. Not of pairs.
  void learn(const Saved& standard, const Saved& modulated, ConstMatrix signal, float scale) const;
  // dx from saved.logits, which holds ∂L/∂logits. Adds to the gradients of the parameters.
  void backward(const Pass& pass, const Saved& saved, Matrix dx, Arena& arena) const;

  // What reaches each sequence, in equal parts to its real rows. Spoils dpooled.
  static void divide(const Pass& pass, Matrix dpooled, Matrix dx);

  // None behind hidden states.
  bool has_output() const { return output_.has_value(); }
  const Linear& output() const { return *output_; }
  bool transforms() const { return config_.transform || config_.pool; }
  std::size_t width() const { return config_.width == 0 ? config_.d_model : config_.width; }

 private:
  ChosenRows chosen(const Pass& pass) const;
  void pool(const Pass& pass, ConstMatrix x, Matrix pooled) const;
  void transform_rows(std::size_t rows, bool saves, Saved& saved, Arena& arena) const;
  // Spoils dpooled.
  void spread(const Pass& pass, Matrix dpooled, Matrix dx) const;
  // dpooled from g = ∂L/∂t, which it spoils; in dx where nothing was pooled.
  Matrix before_transform(const Saved& saved, Matrix g, Matrix dx, Arena& arena) const;

  HeadConfig config_;
  std::optional<Linear> transform_;
  std::unique_ptr<Norm> norm_;
  std::optional<PairLayers> pairs_;
  std::optional<Linear> output_;
  Parameter* constant_ = nullptr;
};

}  // namespace longspan
