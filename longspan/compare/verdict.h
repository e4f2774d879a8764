// Which of several mechanisms to take: one rule, for what is predicted (advise) and for what was
// measured (compare).
//
//   replaces  it is exact, or ‖y − y*‖/‖y*‖ ≤ 1/2 on the same q, k and v
//   tied      low ≤ high of the fastest
//   pick      of the tied, exact attention, flash first; else what gives up least among those with
//             high < low of the fastest exact one
//
// y = 0 has an error of 1: an output with more than half of that is another function's, and a model
// that exists cannot do with it. Whether a model that is trained with it can, no error says.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longspan {

inline constexpr double kReplaces = 0.5;
// What all others are set beside.
inline constexpr std::string_view kBaseline = "flash";

// Whether it may take the place of exact attention in a model that exists. An error that is not
// known is none that is small.
inline bool replaces_exact(bool exact, std::optional<double> error, double limit = kReplaces) {
  return exact || (error && *error <= limit);
}

// "its outputs are not exact attention's (a relative error of 2.7 on random inputs): a model must
// be trained with it"
std::string trained_only_text(std::optional<double> error, std::string_view inputs);

struct Contender {
  std::string_view attention;
  bool exact = false;
  double low = 0.0;  // seconds, and what they may be as well
  double seconds = 0.0;
  double high = 0.0;
  double given_up = 0.0;  // of what is not exact; only the order counts
};

struct Verdict {
  std::size_t pick = 0;
  std::vector<bool> tied;  // with the fastest
};

// Of at least one.
Verdict decide(std::span<const Contender> contenders);

}  // namespace longspan
