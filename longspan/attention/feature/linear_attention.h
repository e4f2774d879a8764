// Linear attention.
//
// features=elu, the linear transformer (Katharopoulos et al., 2020, arXiv:2006.16236):
//
//   φ(x) = elu(x) + 1
//   y_i  = Σ_j φ(q_i)·φ(k_j) v_j / (φ(q_i)·Σ_j φ(k_j) + ε)      over the keys j that query i may
//   see
//
// q and k are not scaled by 1/√d. A causal sequence is scanned in blocks of 64, and decoding keeps
// S = Σ φ(k_j)·v_jᵀ and z = Σ φ(k_j): O(d·e) per token, whatever came before.
//
// features=softmax, efficient attention (Shen et al., 2018, arXiv:1812.01243); not causal:
//
//   y_i = softmax over features (q_i) · (softmax over the sequence (K)ᵀ·V) / √d
//
// The counts are those of kernels/feature/feature_scan.h with M = d and no projection.
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/base/number.h"
#include "longspan/kernels/feature/feature_scan.h"

namespace longspan {

enum class LinearFeatures : std::uint8_t { kElu, kSoftmax };
constexpr Names<2> names_of(LinearFeatures /*kind*/) {
  return {"linear", "features", {"elu", "softmax"}};
}

struct LinearAttentionConfig {
  Choice<LinearFeatures> features = LinearFeatures::kElu;
  float epsilon = 1e-6F;  // elu only
  bool operator==(const LinearAttentionConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("features", features, "φ: elu + 1, or softmax, which is not causal");
    see("epsilon", epsilon, "of the denominator, elu only", from_to(0, 1));
  }
};

class LinearAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "linear";
  static constexpr std::string_view kEquations =
      "φ(x) = elu(x) + 1\n"
      "y_i = Σ_j φ(q_i)·φ(k_j) v_j / (φ(q_i)·Σ_j φ(k_j) + ε)";
  explicit LinearAttention(const LinearAttentionConfig& config = {});
  static Abilities can(const LinearAttentionConfig& config);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;
  std::size_t state_floats(const AttentionShape& shape) const override;
  AttentionCost decode_cost(const AttentionShape& shape) const override;

 private:
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
  void run_decode(const AttentionInputs& in, Heads y, std::span<float> state,
                  Arena& arena) const override;
  FeatureMap map(std::size_t d) const;

  bool softmax_ = false;
  float epsilon_ = 0.0F;
};

// Between attention's types and the kernels' own.
FeatureShape feature_shape(const AttentionShape& shape);
FeatureTensors feature_tensors(const AttentionInputs& in);
AttentionCost attention_cost(const FeatureCost& cost);

}  // namespace longspan
