// Recorder: listens to the calls of a step and keeps them, with the layer and phase that made them.
// Equal calls are kept once, so that a deep model takes no more than a shallow one.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "longspan/base/call.h"
#include "longspan/base/place.h"

namespace longspan {

struct RecordedCall {
  Call call;
  std::string_view layer;
  Phase phase = Phase::kForward;
  std::uint64_t times = 1;
};

class Recorder final : public Listener {
 public:
  void hear(const Call& call) override;
  // In the order in which each was first heard.
  const std::vector<RecordedCall>& calls() const { return calls_; }

 private:
  std::vector<RecordedCall> calls_;
  std::unordered_multimap<std::uint64_t, std::size_t> index_;  // by a hash of what is compared
};

}  // namespace longspan
