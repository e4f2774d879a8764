// Frames of sound (stem.h).
#pragma once

#include "longspan/kernels/rows/unfold.h"
#include "longspan/layers/linear.h"
#include "longspan/layers/stem.h"

namespace longspan {

class SoundStem final : public Stem {
 public:
  SoundStem(Parameters& parameters, const std::string& name, const StemConfig& config);

  std::size_t features(std::size_t length) const override;
  void forward(const StemInput& input, Matrix x, Saved* saved, Arena& arena) const override;
  void backward(const StemInput& input, const Saved& saved, Matrix g, Arena& arena) const override;
  bool frozen() const override { return first_.weight().constant; }

 private:
  static constexpr std::size_t kTaps = 3;
  static constexpr std::size_t kEvery = 2;  // the second takes every other place
  // Of a Saved: before the first activation, behind it, before the second.
  enum : std::uint8_t { kFirst, kHidden, kSecond };

  Window first_window(const StemInput& input) const;
  Window second_window(const StemInput& input) const;

  StemConfig config_;
  Linear first_;
  Linear second_;
};

}  // namespace longspan
