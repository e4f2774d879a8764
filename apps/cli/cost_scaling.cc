// longspan cost --scaling: what the division by √d_k is for, sampled and drawn.
#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "cost.h"
#include "longspan/cost/scaling.h"

namespace longspan::cli {

namespace {

constexpr std::size_t kBar = 20;  // columns of a whole

std::string bar(double share) {
  const auto filled = static_cast<std::size_t>(std::lround(share * static_cast<double>(kBar)));
  std::string text;
  for (std::size_t i = 0; i < kBar; ++i) text += i < filled ? "█" : "·";
  return text;
}

}  // namespace

void print_scaling(bool json) {
  nlohmann::json list = nlohmann::json::array();
  if (!json) {
    fmt::print(
        "64 keys, normal q and k; Σ p(1 − p) is what the softmax lets through of a gradient\n");
    fmt::print("{:>5} {:>11} {:>12}   {:<28} {}\n", "d_k", "Var[q·k]", "Var[q·k/√d]",
               "Σ p(1 − p), unscaled", "Σ p(1 − p), scaled");
  }
  for (std::size_t d_k = 1; d_k <= 256; d_k *= 2) {
    const ScoreStatistics plain = sample_scores({.d_k = d_k, .queries = 32, .scaled = false});
    const ScoreStatistics scaled = sample_scores({.d_k = d_k, .queries = 32});
    if (json) {
      const auto entry = [](const ScoreStatistics& s) {
        return nlohmann::json{{"mean", s.mean},
                              {"variance", s.variance},
                              {"largest_weight", s.largest_weight},
                              {"derivative", s.derivative}};
      };
      list.push_back({{"d_k", d_k}, {"unscaled", entry(plain)}, {"scaled", entry(scaled)}});
      continue;
    }
    fmt::print("{:>5} {:>11.2f} {:>12.3f}   {} {:.3f}   {} {:.3f}\n", d_k, plain.variance,
               scaled.variance, bar(plain.derivative), plain.derivative, bar(scaled.derivative),
               scaled.derivative);
  }
  if (json) fmt::print("{}\n", nlohmann::json{{"scaling", list}}.dump(2));
}

}  // namespace longspan::cli
