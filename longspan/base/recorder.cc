#include "longspan/base/recorder.h"

#include <functional>

namespace longspan {

namespace {

std::uint64_t hash_of(const Call& call, const Place& place) {
  std::uint64_t hash = static_cast<std::uint64_t>(call.op);
  const auto mix = [&](std::uint64_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15U; };
  for (const std::size_t size : {call.rows, call.cols, call.inner}) mix(size);
  for (const std::string_view text : {call.variant, call.fused, place.layer}) {
    mix(std::hash<std::string_view>{}(text));
  }
  mix(static_cast<std::uint64_t>(place.phase));
  mix(call.work.maccs);
  return hash;
}

}  // namespace

void Recorder::hear(const Call& call) {
  const Place& place = Place::now();
  const std::uint64_t hash = hash_of(call, place);
  const auto [begin, end] = index_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    RecordedCall& known = calls_[it->second];
    if (known.layer != place.layer || known.phase != place.phase || known.call != call) continue;
    ++known.times;
    return;
  }
  index_.emplace(hash, calls_.size());
  calls_.push_back({call, place.layer, place.phase});
}

}  // namespace longspan
