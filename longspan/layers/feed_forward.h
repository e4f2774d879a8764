// Feed-forward:  y = W₂·f(W₁·x + b₁) + b₂
// or gated:      y = W₂·(f(W_g·x)⊙(W_u·x))      (SwiGLU with f = SiLU)
//
//   dh = dy·W₂,  dz = f'(z)⊙dh,  dx = dz·W₁
//   dW₂ += dyᵀ·h,  dW₁ += dzᵀ·x
//
// Without gate: MACCs 2·M·d·f in each phase; FLOPs with biases M·f·(1 + forward of f) + M·d
// forward, M·f·(backward of f) backward, M·f + M·d update.
//
// Rules that compare two passes take h − h_err for W₁, behind f as they do; with a gate, where h is
// not the output of one matrix, z − z_err.
#pragma once

#include <string>

#include "longspan/layers/branch.h"
#include "longspan/layers/linear.h"

namespace longspan {

struct FeedForwardConfig {
  std::size_t d_model = 0;
  std::size_t d_ff = 0;
  Activation activation = Activation::kGeluTanh;
  bool gated = false;
  bool bias = true;
  float deviation = 0.02F;         // of W₁
  float output_deviation = 0.02F;  // of W₂
};

class FeedForward final : public Branch, public Contrastive {
 public:
  FeedForward(Parameters& parameters, const std::string& name, const FeedForwardConfig& config);

  static constexpr std::string_view kMeter = "ffn";
  std::string_view meter_name() const override { return kMeter; }
  void check(const Pass& /*pass*/) const override {}
  Kept save(const Pass& pass, Arena& arena) const override;
  void forward(const BranchForward& call) const override;
  Kept backward(const BranchBackward& call) const override;
  void accumulate(const BranchUpdate& call) const override;

  bool trained() const override { return !in_.weight().constant; }
  bool packs() const override { return true; }
  const Contrastive* contrastive() const override { return this; }
  Kept save_outputs(const Pass& pass, Arena& arena) const override;
  Kept save_modulated(const Pass& pass, Arena& arena) const override;
  Kept contrast(const Pass& pass, const Kept& standard, const Kept& modulated, float scale,
                const Beside& beside, Arena& arena) const override;

 private:
  enum Part : std::size_t { kZ, kH };
  std::size_t hidden() const { return config_.gated ? 2 * config_.d_ff : config_.d_ff; }

  FeedForwardConfig config_;
  Linear in_;  // gated: rows [gate; up]
  Linear out_;
};

}  // namespace longspan
