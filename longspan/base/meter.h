// Meter: listens to the kernels and adds up what they did, by part of the model, layer and phase.
// Of a dry step it is what the step would do.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "longspan/base/call.h"
#include "longspan/base/cost.h"
#include "longspan/base/place.h"

namespace longspan {

class Meter final : public Listener {
 public:
  struct Key {
    ModelPart part = ModelPart::kNone;
    std::string layer;
    Phase phase = Phase::kForward;
    // NOLINTNEXTLINE(modernize-use-nullptr): it is not there.
    auto operator<=>(const Key&) const = default;
  };
  const std::map<Key, Work>& entries() const { return entries_; }
  Work at(std::string_view layer, Phase phase) const;
  Work total(Phase phase) const;
  void clear();

  // One report, and the seconds since the one before or since time_laps.
  struct Lap {
    Work work;
    double seconds = 0.0;
  };
  // From now on reports are kept with their times; those of before are forgotten.
  void time_laps();
  const std::vector<Lap>& laps() const { return laps_; }

  void hear(const Call& call) override;

 private:
  std::map<Key, Work> entries_;
  Work* target_ = nullptr;  // of the place below
  Place place_;
  std::vector<Lap> laps_;
  double lap_start_ = 0.0;
  bool timed_ = false;
};

// What a step did, or a dry one would, without the optimiser; layers that did nothing are left out.
CostTable cost_of(const Meter& meter);

}  // namespace longspan
