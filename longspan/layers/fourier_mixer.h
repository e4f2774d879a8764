// Fourier mixing in the place of attention (FNet: Lee-Thorp et al., 2021, arXiv:2105.03824):
//
//   y = Re(F_n·x·F_d),   dx = Re(F_n·dy·F_d)
//
// of each sequence, along its positions and across its features; the map is its own transpose
// (kernels/fourier/fourier.h). There is nothing to learn and nothing to keep.
//
// Every position reads every other, so it can be neither causal nor decode. Padding is mixed in like
// any token, as the paper's model does: what a sequence gives depends on the length it is padded to.
// In training its output takes no dropout, as there.
#pragma once

#include "longspan/layers/branch.h"

namespace longspan {

struct FourierMixerConfig {
  bool causal = false;
  bool cross = false;
};

class FourierMixer final : public Branch {
 public:
  // Throws Error for what the mixing cannot be.
  explicit FourierMixer(const FourierMixerConfig& config);

  static constexpr std::string_view kMeter = "fnet";
  std::string_view meter_name() const override { return kMeter; }
  void check(const Pass& pass) const override;
  Kept save(const Pass& /*pass*/, Arena& /*arena*/) const override { return {}; }
  void forward(const BranchForward& call) const override;
  Kept backward(const BranchBackward& call) const override;
  void accumulate(const BranchUpdate& /*call*/) const override {}

  bool trained() const override { return false; }
  bool decodes() const override { return false; }
  bool packs() const override { return true; }
  bool reads_padding() const override { return true; }
  bool drops_output() const override { return false; }
};

}  // namespace longspan
