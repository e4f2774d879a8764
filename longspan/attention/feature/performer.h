// Performer: softmax attention by random features, FAVOR+ (Choromanski et al., 2021,
// arXiv:2009.14794).
//
//   x' = x/d^¼,   φ(x) = exp(Ωx' − ‖x'‖²/2)/√M,   E[φ(q)·φ(k)] = exp(q·k/√d)
//   y_i = Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j)        over the keys j that query i may see
//
// kernel=hyperbolic uses M/2 projections and both signs of them; kernel=relu is φ(x) = relu(Ωx') +
// ε and does not approximate the softmax. Ω has orthogonal rows (performer_features.h), one Ω per
// layer, a constant that is drawn again every `redraw` steps of training and never otherwise.
//
// Features are kept relative to running maxima (kernels/feature/feature_attention.h), so there is no ε and
// a causal sequence never sees its future. With `epsilon` > 0 features are computed as public
// implementations do, exp(Ωx' − ‖x'‖²/2 − max) + ε with the maximum of all keys: biased, and in
// causal sequences later keys reach earlier outputs through that maximum; it is there for
// comparison.
//
// The variance of φ(q)·φ(k) relative to its square is (e^‖q'+k'‖² − 1)/M: features_needed() tells
// the M that given queries and keys call for.
//
// The counts are those of kernels/feature/feature_scan.h.
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/attention/feature/performer_features.h"
#include "longspan/base/number.h"
#include "longspan/kernels/feature/feature_scan.h"

namespace longspan {

enum class PerformerKernel : std::uint8_t { kPositive, kHyperbolic, kRelu };
constexpr Names<3> names_of(PerformerKernel /*kind*/) {
  return {"performer", "kernel", {"positive", "hyperbolic", "relu"}};
}

struct PerformerConfig {
  Choice<PerformerKernel> kernel = PerformerKernel::kPositive;
  std::size_t features = 0;  // M; 0: ⌈d·ln d⌉
  Choice<Orthogonal> orthogonal = Orthogonal::kQr;
  Choice<FeatureNorms> norms = FeatureNorms::kChi;
  std::size_t redraw = 1000;  // steps of training; 0: never
  std::uint64_t seed = 0;
  float epsilon = 0.0F;        // of the features, for comparison with public implementations
  float sum_epsilon = 0.0F;    // of the causal sum of features, likewise
  float relu_epsilon = 1e-3F;  // kernel=relu
  bool operator==(const PerformerConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("kernel", kernel, "positive and hyperbolic approximate the softmax, relu does not");
    see("features", features, "M; 0: d·ln d", from_to(0, 65536));
    see("orthogonal", orthogonal, "how blocks of d rows of Ω are made orthogonal");
    see("norms", norms, "of the rows of Ω: chi is unbiased, fixed varies less");
    see("redraw", redraw, "steps of training between two draws of Ω; 0: never", from_to(0, 1e12));
    see("seed", seed, "of the draws");
    see("epsilon", epsilon, "added to features, as public implementations do", from_to(0, 1));
    see("sum_epsilon", sum_epsilon, "added to the causal sum of features, likewise", from_to(0, 1));
    see("relu_epsilon", relu_epsilon, "added to features of kernel=relu", from_to(0, 1));
  }
};

class PerformerAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "performer";
  static constexpr std::string_view kEquations =
      "x' = x/d^¼,  φ(x) = exp(Ωx' − ‖x'‖²/2)/√M,  E[φ(q)·φ(k)] = exp(q·k/√d)\n"
      "y_i = Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j)";
  PerformerAttention(const PerformerConfig& config, const AttentionSite& site);
  static Abilities can(const PerformerConfig& config);
  std::string_view name() const override { return kName; }
  void begin_step(std::uint64_t step) override;
  AttentionCost cost(const AttentionShape& shape) const override;
  std::size_t state_floats(const AttentionShape& shape) const override;
  AttentionCost decode_cost(const AttentionShape& shape) const override;

  // How tokens of width d become features, without the values of Ω.
  static FeatureMap map(const PerformerConfig& config, std::size_t d);
  FeatureMap map(std::size_t d) const { return map(config_, d); }

 private:
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
  void run_decode(const AttentionInputs& in, Heads y, std::span<float> state,
                  Arena& arena) const override;
  FeatureMap drawn_map(std::size_t d) const;
  static std::size_t rows(const PerformerConfig& config, std::size_t d);
  RandomKey key_of(std::uint64_t draw) const;

  PerformerConfig config_;
  std::size_t d_;
  RandomKey key_;
  Parameter* omega_ = nullptr;  // [rows, d]; or, for Hadamard products:
  Parameter* signs_ = nullptr;  // [sign_rows, p]
  Parameter* norms_ = nullptr;  // [1, rows]
};

// The number of positive features for which the standard deviation of φ(q)·φ(k) is `error` times
// exp(q·k/√d): (e^‖q'+k'‖² − 1)/error², for the median and the worst of the pairs (of at most 512
// queries and keys of each head, evenly spread).
struct FeaturesNeeded {
  double median = 0.0;
  double worst = 0.0;
};
FeaturesNeeded features_needed(ConstHeads q, ConstHeads k, double error);

}  // namespace longspan
