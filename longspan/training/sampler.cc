#include "longspan/training/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace longspan {

void check(const SamplerConfig& c) { check_numbers("generate", c); }

std::int32_t Sampler::draw(std::span<const float> logits, std::uint64_t index) {
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  // Ties go to the lower token, so that the order is one and the same everywhere.
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  std::ranges::sort(order_, likelier);
  if (config_.temperature == 0.0) return order_.front();
  if (config_.top_k > 0) order_.resize(std::min(order_.size(), config_.top_k));
  weights_.resize(order_.size());
  const double top = logits[order_.front()];
  double total = 0.0;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    weights_[i] = std::exp((logits[order_[i]] - top) / config_.temperature);
    total += weights_[i];
  }
  double kept = 0.0;
  std::size_t count = 0;
  while (count < weights_.size() && (count == 0 || kept < config_.top_p * total)) {
    kept += weights_[count++];
  }
  const RandomKey key = derive(config_.seed, "sample");
  double left = static_cast<double>(random_bits(key, index)) * 0x1p-32 * kept;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (left < weights_[i]) return order_[i];
    left -= weights_[i];
  }
  return order_[count - 1];
}

}  // namespace longspan
