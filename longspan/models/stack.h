// A stack of residual sublayers: an encoder or a decoder without its embedding and head.
//
// Post- and pre-norm keep each sublayer's activations for backward. Reversible keeps none: two
// streams a and b start as copies of x, sublayer i does
//
//   i even: a ← a + f_i(norm_i(b)),   i odd: b ← b + f_i(norm_i(a)),
//
// and the output is (a + b)/2, or [a|b]. On the way back each step is undone by subtracting f_i
// again, so the memory of the activations does not grow with depth (Gomez et al., 2017; Kitaev et
// al., 2020).
//
// With checkpointing a layer keeps its input only and is computed again on the way back (Chen et
// al., 2016). Frozen layers, the first ones, keep nothing, and backward ends before them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "longspan/layers/feed_forward.h"
#include "longspan/layers/multi_head_attention.h"
#include "longspan/layers/residual.h"

namespace longspan {

struct StackConfig {
  std::size_t layers = 1;
  bool cross = false;  // each layer has cross-attention after its self-attention
  MultiHeadAttentionConfig attention;
  FeedForwardConfig feed_forward;
  std::string cross_attention;  // empty: as the self-attention
  Wiring wiring = Wiring::kPreNorm;
  bool final_norm = true;     // unless post-norm
  bool concatenates = false;  // the reversible streams at the end
  NormKind norm = NormKind::kLayer;
  float epsilon = 1e-5F;
  float dropout = 0.0F;
  bool checkpointing = false;
  std::size_t frozen = 0;  // layers
};

// The mechanism of a layer: "a|b" means that layers take a and b in turn.
std::string mechanism_of(const std::string& attention, std::size_t layer);

class Stack {
 public:
  // What forward leaves for backward. Reused from step to step.
  struct Tape {
    std::vector<ResidualSaved> residuals;
    std::vector<Matrix> inputs;  // of the layers, with checkpointing
    Matrix output;
    Norm::Saved final_norm;
    Matrix a;  // the reversible streams
    Matrix b;
  };

  Stack(Parameters& parameters, const std::string& name, const StackConfig& config);

  // Before step `step` of training.
  void begin_step(std::uint64_t step) {
    for (Residual& r : residuals_) r.branch().begin_step(step);
  }
  // Throws Error where a layer cannot do what the pass asks.
  void check(const Pass& pass) const {
    for (const Residual& r : residuals_) r.branch().check(pass);
  }
  // Training: x [rows, d], in the arena, may be changed (reversible). Returns the output.
  Matrix forward(const Pass& pass, Matrix x, Tape& tape, Arena& arena) const;
  // Rules that compare two passes. What they keep of the standard one:
  struct Outputs {
    std::vector<ResidualOutputs> residuals;
    Matrix final_norm;
  };
  // The standard pass beside the modulated one: x becomes its output.
  struct Beside {
    const Pass& pass;
    Matrix x;
  };
  // The standard pass; returns its output and leaves x as it is.
  Matrix observe(const Pass& pass, ConstMatrix x, Outputs& outputs, Arena& arena) const;
  // The modulated pass, compared with what observe kept or with a standard pass that runs beside
  // it, layer by layer; x is spoilt. Adds to the gradients; returns the modulated output.
  Matrix learn(const Pass& pass, Matrix x, const Outputs& kept, float scale, Arena& arena) const;
  Matrix learn_beside(const Pass& pass, Matrix x, Beside& standard, float scale,
                      Arena& arena) const;

  // Spoils g = ∂L/∂output and returns ∂L/∂x in its memory.
  Matrix backward(const Pass& pass, Tape& tape, Matrix g, Arena& arena) const;
  // Nothing kept; x is overwritten with the output or returned in other memory of the arena. With
  // `caches`, one per self-attention, decodes.
  Matrix infer(const Pass& pass, Matrix x, std::span<KeyValueCache> caches, Arena& arena) const;

  std::size_t output_width() const { return config_.concatenates ? 2 * width() : width(); }
  std::size_t self_attentions() const { return config_.layers; }
  const MultiHeadAttention& self_attention(std::size_t layer) const {
    return static_cast<const MultiHeadAttention&>(residuals_[layer * sublayers()].branch());
  }
  MultiHeadAttention& self_attention(std::size_t layer) {
    return static_cast<MultiHeadAttention&>(residuals_[layer * sublayers()].branch());
  }
  const StackConfig& config() const { return config_; }
  const std::vector<Residual>& residuals() const { return residuals_; }

 private:
  void add_residual(std::unique_ptr<Branch> branch, Parameters& parameters,
                    const std::string& name);
  std::size_t sublayers() const { return config_.cross ? 3 : 2; }
  std::size_t frozen_sublayers() const { return config_.frozen * sublayers(); }
  bool post_norm() const { return config_.wiring == Wiring::kPostNorm; }
  bool reversible() const { return config_.wiring == Wiring::kReversible; }
  std::size_t width() const { return config_.attention.d_model; }
  Matrix take_output(const Pass& pass, Arena& arena) const {
    return arena.matrix(pass.rows(), output_width());
  }
  // The pass of sublayer i: its own stream of random numbers.
  Pass pass_of(const Pass& pass, std::size_t i) const;
  // One layer without keeping anything but its output, or keeping all in `saved`.
  void run_layer(const Pass& pass, std::size_t layer, Matrix x, Matrix y, ResidualSaved* saved,
                 Arena& arena) const;
  Matrix forward_frozen(const Pass& pass, Matrix x, Arena& arena) const;
  void forward_streams(const Pass& pass, Matrix x, Tape& tape, Arena& arena) const;
  void backward_layers(const Pass& pass, Tape& tape, Matrix g, Arena& arena) const;
  Matrix backward_streams(const Pass& pass, Tape& tape, Matrix g, Arena& arena) const;
  void join_streams(ConstMatrix a, ConstMatrix b, Matrix y) const;
  // The buffers of a pass that keeps nothing itself: reversible streams, or two that take turns.
  struct Turns {
    Matrix x;
    Matrix other;
  };
  Turns start(const Pass& pass, Matrix x, Arena& arena) const;
  ConstMatrix source(const Turns& t, std::size_t i) const;
  Matrix target(const Turns& t, std::size_t i) const;
  void turn(Turns& t) const;
  Matrix join(const Pass& pass, const Turns& t, Arena& arena) const;
  bool final_norm_learns() const { return final_norm_ != nullptr && !final_norm_->frozen(); }
  void learn_final_norm(const Pass& pass, ConstMatrix standard, Matrix x, float scale,
                        Arena& arena) const;
  Matrix finish(const Pass& pass, Matrix x, Norm::Saved* saved, Arena& arena) const;

  StackConfig config_;
  std::vector<Residual> residuals_;
  std::unique_ptr<Norm> final_norm_;  // null for post-norm, which ends in one
};

}  // namespace longspan
