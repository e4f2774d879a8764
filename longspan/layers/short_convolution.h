// A short causal convolution of every channel in the place of attention: each token reads the w−1
// before it (kernels/rows/convolution.h).
//
// Before a layer of attention it lets a token know its neighbours, which looking something up needs
// (Arora et al., 2023, arXiv:2312.04927). Padding gives zeros and reaches nothing. Decoding keeps
// the last w−1 inputs.
#pragma once

#include "longspan/base/number.h"
#include "longspan/base/parameter.h"
#include "longspan/kernels/rows/convolution.h"
#include "longspan/layers/branch.h"

namespace longspan {

struct ShortConvolutionConfig {
  std::size_t width = 4;

  template <class See>
  void visit(See see) {
    see("width", width, "Tokens that each is made of, itself among them", from_to(1, kMostTaps));
  }
};

// Taps begin as small as embeddings do: what a branch adds must not drown the token at first.
struct Channels {
  std::size_t d_model = 0;
  bool bias = true;
  float deviation = 0.02F;
};

class ShortConvolution final : public Branch, public Contrastive {
 public:
  ShortConvolution(Parameters& parameters, const std::string& name,
                   const ShortConvolutionConfig& config, const Channels& channels);

  static constexpr std::string_view kMeter = "conv";
  std::string_view meter_name() const override { return kMeter; }
  void check(const Pass& pass) const override;
  Kept save(const Pass& /*pass*/, Arena& /*arena*/) const override { return {}; }
  void forward(const BranchForward& call) const override;
  Kept backward(const BranchBackward& call) const override;
  void accumulate(const BranchUpdate& call) const override;

  bool trained() const override { return !taps_->constant; }
  bool packs() const override { return true; }
  // Its taps give the output itself, of which whoever compares two passes knows the difference.
  const Contrastive* contrastive() const override { return this; }
  Kept save_outputs(const Pass& /*pass*/, Arena& /*arena*/) const override { return {}; }
  Kept save_modulated(const Pass& /*pass*/, Arena& /*arena*/) const override { return {}; }
  Kept contrast(const Pass& /*pass*/, const Kept& /*standard*/, const Kept& /*modulated*/,
                float /*scale*/, const Beside& /*beside*/, Arena& /*arena*/) const override {
    return {};
  }
  void size_cache(std::size_t context, DecodeCache& cache) const override;

 private:
  Convolution convolution(const Pass& pass) const;

  Parameter* taps_;
  Parameter* bias_ = nullptr;
};

}  // namespace longspan
