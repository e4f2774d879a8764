// The patches of an image (stem.h).
#pragma once

#include "longspan/kernels/rows/unfold.h"
#include "longspan/layers/linear.h"
#include "longspan/layers/stem.h"

namespace longspan {

class PatchStem final : public Stem {
 public:
  PatchStem(Parameters& parameters, const std::string& name, const StemConfig& config);

  std::size_t features(std::size_t length) const override;
  void forward(const StemInput& input, Matrix x, Saved* saved, Arena& arena) const override;
  void backward(const StemInput& input, const Saved& saved, Matrix g, Arena& arena) const override;
  bool frozen() const override { return patches_.weight().constant; }

 private:
  Window window(std::size_t batch) const;
  std::size_t patches() const { return window(1).rows(); }
  // The rows of every sequence but its first.
  Heads behind_token(Matrix x, std::size_t batch) const {
    return Heads::from_columns(x, batch, 1).slice(1, patches());
  }
  std::size_t length() const { return patches() + (token_ == nullptr ? 0 : 1); }

  StemConfig config_;
  Linear patches_;
  Parameter* token_ = nullptr;
};

}  // namespace longspan
