// longspan cost --scaling: what the division by √d_k is for, sampled and drawn.
#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "cost.h"
#include "longspan/cost/scaling.h"
#include "table.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

constexpr std::size_t kBar = 16;  // columns of a whole

std::string bar(double share) {
  const auto filled = static_cast<std::size_t>(std::lround(share * static_cast<double>(kBar)));
  const std::string_view rest = has_unicode() ? "·" : ".";
  std::string text;
  for (std::size_t i = 0; i < kBar; ++i) text += i < filled ? "█" : rest;
  return fmt::format("{} {:.3f}", text, share);
}

nlohmann::json as_json(const ScoreStatistics& s) {
  return {{"mean", s.mean},
          {"variance", s.variance},
          {"largest_weight", s.largest_weight},
          {"derivative", s.derivative}};
}

}  // namespace

void print_scaling(bool json) {
  nlohmann::json list = nlohmann::json::array();
  Table table({{"d_k", true},
               {"Var[q·k]", true},
               {"Var[q·k/√d]", true},
               {"Σ p(1 − p), unscaled"},
               {"Σ p(1 − p), scaled"}});
  for (std::size_t d_k = 1; d_k <= 256; d_k *= 2) {
    const ScoreStatistics plain = sample_scores({.d_k = d_k, .queries = 32, .scaled = false});
    const ScoreStatistics scaled = sample_scores({.d_k = d_k, .queries = 32});
    list.push_back({{"d_k", d_k}, {"unscaled", as_json(plain)}, {"scaled", as_json(scaled)}});
    table.add({fmt::format("{}", d_k), fmt::format("{:.2f}", plain.variance),
               fmt::format("{:.3f}", scaled.variance), bar(plain.derivative),
               bar(scaled.derivative)});
  }
  if (json) return fmt::print("{}\n", nlohmann::json{{"scaling", list}}.dump(2));
  print_wrapped(
      "", "64 keys, normal q and k; Σ p(1 − p) is what the softmax lets through of a gradient");
  table.print();
}

}  // namespace longspan::cli
