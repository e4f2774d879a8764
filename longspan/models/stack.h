// A stack of blocks, each a list of residual branches: an encoder or a decoder without its
// embedding and head.
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
// Parallel: the branches of a layer read the same, norm(x), and their sum is added to x. Each has a
// norm of its own, or all share one (Black et al., 2022; Wang & Komatsuzaki, 2021).
//
// A stack may have stages, between which its sequences change their length (stages.h).
//
// With checkpointing a layer keeps its input only and is computed again on the way back (Chen et
// al., 2016). Frozen layers, the first ones, keep nothing, and backward ends before them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "longspan/layers/branches.h"
#include "longspan/layers/residual.h"
#include "longspan/layers/routing.h"
#include "longspan/models/block_signals.h"
#include "longspan/models/stages.h"
#include "longspan/models/watch.h"

namespace longspan {

struct StackConfig {
  // The branches of each layer, as make_branch() takes them.
  std::vector<std::vector<std::string>> layers;
  BlockConfig block;
  // Of the layers in turn; none: queries and keys are not rotated.
  std::vector<std::shared_ptr<const RotaryTable>> rotary;
  Wiring wiring = Wiring::kPreNorm;
  bool shared = false;        // all layers have the weights of the first
  bool first_norm = true;     // pre-norm: the first branch has one
  bool final_norm = true;     // unless post-norm
  bool concatenates = false;  // the reversible streams at the end
  NormKind norm = NormKind::kLayer;
  Norm::Learns norm_learns = {true, true};
  float epsilon = 1e-5F;
  float dropout = 0.0F;
  bool checkpointing = false;
  std::size_t frozen = 0;  // layers
  StagesConfig stages;     // of post-norm layers that keep all
};

// What travels beside a pass through a stack.
struct StackBeside {
  std::span<History> histories = {};  // one for each layer
  bool records = true;
  std::span<DecodeCache> caches = {};  // one for each branch
  std::span<Routing> routings = {};    // likewise
  RoutingLoss* joint = nullptr;        // of all of them
  Matrix context_gradient = {};
  const BlockSignals* signals = nullptr;  // instead of those of the blocks behind; not reversible
  StageRun* stages = nullptr;             // of a stack that has them
  Watch* watch = nullptr;                 // of a pass that keeps nothing
};

class Stack {
 public:
  static constexpr std::string_view kFinalMeter = "final norm";
  static constexpr std::string_view kStreamsMeter = "streams";

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

  // Before and after step `step` of training.
  void begin_step(std::uint64_t step) {
    for (Residual& r : residuals_) r.branch().begin_step(step);
  }
  void end_step() {
    for (Residual& r : residuals_) r.branch().end_step();
  }
  // Throws Error where a layer cannot do what the pass asks.
  void check(const Pass& pass) const {
    if (stages_.active()) return check_stages(pass);
    for (const Residual& r : residuals_) r.branch().check(pass);
  }
  // Training: x [rows, d], in the arena, may be changed (reversible). Returns the output.
  Matrix forward(const Pass& pass, Matrix x, Tape& tape, const StackBeside& beside,
                 Arena& arena) const;
  // Spoils g = ∂L/∂output and returns ∂L/∂x in its memory.
  Matrix backward(const Pass& pass, Tape& tape, Matrix g, const StackBeside& beside,
                  Arena& arena) const;
  // Nothing kept; x is overwritten with the output or returned in other memory of the arena. With
  // caches, decodes.
  Matrix infer(const Pass& pass, Matrix x, const StackBeside& beside, Arena& arena) const;

  // Caches for `capacity` tokens that read `context` others, laid out in the arena.
  void lay_out_caches(std::size_t batch, std::size_t capacity, std::size_t context, Arena& arena,
                      std::vector<DecodeCache>& caches) const;
  bool decodes() const;
  // The first branch that takes no packed pass; null: all do.
  const Branch* needs_padding() const;
  // Whether what some branch gives of a sequence depends on how far that is padded.
  bool reads_padding() const;
  // Whether the data decide what some branch computes.
  bool chooses() const;
  // Parameters that a token leaves unused.
  std::size_t idle_parameters() const;

  // Rules that compare two passes. What they keep of the standard one:
  struct Outputs {
    std::vector<ResidualOutputs> residuals;
    Matrix final_norm;
  };
  // One of the two passes; x becomes its output.
  struct Compared {
    const Pass& pass;
    StackBeside beside;
    Matrix x;
  };
  // The standard pass; returns its output and leaves x as it is.
  Matrix observe(const Compared& standard, const Contrast& contrast, Outputs& outputs,
                 Arena& arena) const;
  // The modulated pass, compared with what observe kept or with a standard pass that runs beside
  // it, layer by layer; both x are spoilt. Adds to the gradients.
  void learn(Compared& modulated, const Outputs& kept, const Contrast& contrast,
             Arena& arena) const;
  void learn_beside(Compared& modulated, Compared& standard, const Contrast& contrast,
                    Arena& arena) const;

  std::size_t output_width() const { return config_.concatenates ? 2 * width() : width(); }
  std::size_t layers() const { return config_.layers.size(); }
  // The first branch of a layer, which mixes its tokens.
  const Branch& mixer(std::size_t layer) const { return residuals_[first_[layer]].branch(); }
  Branch& mixer(std::size_t layer) { return residuals_[first_[layer]].branch(); }
  const StackConfig& config() const { return config_; }
  const std::vector<Residual>& residuals() const { return residuals_; }

 private:
  std::size_t width() const { return config_.block.attention.d_model; }
  std::size_t frozen_sublayers() const { return first_[config_.frozen]; }
  bool post_norm() const { return config_.wiring == Wiring::kPostNorm; }
  bool reversible() const { return config_.wiring == Wiring::kReversible; }
  bool parallel() const {
    return config_.wiring == Wiring::kParallel || config_.wiring == Wiring::kParallelShared;
  }
  // Whether backward reads the inputs of sublayers themselves.
  bool keeps_inputs() const { return post_norm() || config_.wiring == Wiring::kReordered; }
  void add_layer(Parameters& parameters, const std::string& name, std::size_t layer);
  ResidualNorms make_norms(Parameters& parameters, const std::string& place) const;
  Matrix take_output(const Pass& pass, Arena& arena) const {
    return arena.matrix(pass.rows(), output_width());
  }
  // The pass of sublayer i, with its own stream of random numbers, and what travels beside it.
  Pass pass_of(const Pass& pass, std::size_t i) const;
  Beside beside_of(const StackBeside& beside, std::size_t i) const;
  // One layer without keeping anything but its output, or keeping all in `saved`.
  void run_layer(const Pass& pass, std::size_t layer, Matrix x, Matrix y, ResidualSaved* saved,
                 const StackBeside& beside, Arena& arena) const;
  // The same of a parallel layer; what its branches save is taken before y is written.
  void run_parallel(const Pass& pass, std::size_t layer, ConstMatrix x, Matrix y,
                    ResidualSaved* saved, const StackBeside& beside, Arena& arena) const;
  // g is dy on entry and dx on return.
  void backward_layer(const Pass& pass, std::size_t layer, const ResidualSaved* saved, Matrix g,
                      const StackBeside& beside, Arena& arena) const;
  void backward_parallel(const Pass& pass, std::size_t layer, const ResidualSaved* saved, Matrix g,
                         const StackBeside& beside, Arena& arena) const;
  Matrix forward_frozen(const Pass& pass, Matrix x, const StackBeside& beside, Arena& arena) const;
  void forward_streams(const Pass& pass, Matrix x, Tape& tape, const StackBeside& beside,
                       Arena& arena) const;
  void backward_layers(const Pass& pass, Tape& tape, Matrix g, const StackBeside& beside,
                       Arena& arena) const;
  void backward_final_norm(const Tape& tape, Matrix g) const;
  // The signal of a block's output, where it does not come from the block behind.
  void receive(const Tape& tape, std::size_t block, Matrix g, const StackBeside& beside) const;
  Matrix backward_streams(const Pass& pass, Tape& tape, Matrix g, const StackBeside& beside,
                          Arena& arena) const;
  void check_stages(const Pass& pass) const;
  Matrix run_stages(const Pass& pass, Matrix x, Tape* tape, const StackBeside& beside,
                    Arena& arena) const;
  Matrix backward_stages(Tape& tape, Matrix g, const StackBeside& beside, Arena& arena) const;
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
  void show(std::size_t i, ConstMatrix x, const StackBeside& beside) const {
    if (beside.watch != nullptr) beside.watch->see(residuals_[i].branch().meter_name(), x);
  }
  bool final_norm_learns() const { return final_norm_ != nullptr && !final_norm_->frozen(); }
  void learn_final_norm(const Pass& pass, ConstMatrix standard, Matrix x, float scale,
                        Arena& arena) const;
  Matrix finish(const Pass& pass, Matrix x, Norm::Saved* saved, Arena& arena) const;

  StackConfig config_;
  Stages stages_;
  std::vector<Residual> residuals_;
  std::vector<std::size_t> layer_;    // of each residual
  std::vector<std::size_t> first_;    // residual of each layer, and one behind the last
  std::unique_ptr<Norm> final_norm_;  // null for post-norm, which ends in one
};

}  // namespace longspan
