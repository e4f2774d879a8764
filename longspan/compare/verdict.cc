#include "longspan/compare/verdict.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

namespace longspan {

namespace {

// The fastest exact one, or null.
const Contender* fastest_exact(std::span<const Contender> all) {
  const Contender* best = nullptr;
  for (const Contender& c : all) {
    if (c.exact && (best == nullptr || c.seconds < best->seconds)) best = &c;
  }
  return best;
}

}  // namespace

std::string trained_only_text(std::optional<double> error, std::string_view inputs) {
  const std::string why =
      error
          ? fmt::format("its outputs are not exact attention's (a relative error of {:.2g} on {})",
                        *error, inputs)
          : "how close its outputs come to exact attention's is not known";
  return why + ": a model must be trained with it";
}

Verdict decide(std::span<const Contender> all) {
  const Contender& fastest = *std::ranges::min_element(all, {}, &Contender::seconds);
  Verdict verdict;
  for (const Contender& c : all) verdict.tied.push_back(c.low <= fastest.high);
  const Contender* exact = fastest_exact(all);
  const auto order = [&](std::size_t i) {
    const Contender& c = all[i];
    const bool no_gain = !c.exact && exact != nullptr && c.high >= exact->low;
    return std::make_tuple(!verdict.tied[i], no_gain, !c.exact, c.exact && c.attention != "flash",
                           c.exact ? 0.0 : c.given_up, c.seconds);
  };
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (order(i) < order(verdict.pick)) verdict.pick = i;
  }
  return verdict;
}

}  // namespace longspan
