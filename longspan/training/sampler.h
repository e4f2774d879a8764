// Drawing the next token:  p = softmax(logits / temperature), cut to the top k tokens and then to
// the smallest set whose probability reaches top_p, renormalised.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "longspan/base/number.h"
#include "longspan/base/random.h"

namespace longspan {

struct SamplerConfig {
  double temperature = 0.8;  // 0: always the likeliest
  std::size_t top_k = 0;     // 0: all
  double top_p = 1.0;
  std::uint64_t seed = 1337;

  template <class See>
  void visit(See see) {
    see("temperature", temperature, from_to(0, 1000));
    see("top_k", top_k, from_to(0, 1e9));
    see("top_p", top_p, above_to(0, 1));
    see("seed", seed);
  }
};

void check(const SamplerConfig& config);

class Sampler {
 public:
  explicit Sampler(const SamplerConfig& config) : config_(config) {}
  // The token of draw number `index`: a function of (logits, seed, index).
  std::int32_t draw(std::span<const float> logits, std::uint64_t index);

 private:
  SamplerConfig config_;
  std::vector<std::int32_t> order_;
  std::vector<double> weights_;
};

}  // namespace longspan
