#include "longspan/tasks/events/hawkes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "longspan/io/text_lines.h"

namespace longspan {
namespace hawkes_test {

// Sequences that another implementation drew from this process, with the likelihood that it gave
// them.
TEST(Hawkes, LikelihoodIsThatOfAnotherImplementation) {
  std::size_t seen = 0;
  read_lines("test", LONGSPAN_SOURCE_DIR "/tests/data/events/hawkes_sim.jsonl",
             [&](const TextLine& line) {
               const auto value = nlohmann::json::parse(line.text);
               const EventSequence events{value.at("t"), value.at("m")};
               EXPECT_NEAR(example_hawkes().log_likelihood(events, 200.0),
                           value.at("loglik").get<double>(), 1e-4);
               ++seen;
             });
  EXPECT_EQ(seen, 3);
}

// Λ = (I − α)⁻¹·μ events of each type in the long run.
TEST(Hawkes, SimulatesItsRates) {
  const HawkesProcess process = example_hawkes();
  std::vector<double> counts(2, 0.0);
  constexpr std::size_t kSequences = 400;
  constexpr double kEnd = 200.0;
  for (std::size_t i = 0; i < kSequences; ++i) {
    const EventSequence events = process.simulate(derive(5, i), kEnd);
    EXPECT_TRUE(std::ranges::is_sorted(events.times));
    for (const std::int32_t type : events.types) counts[static_cast<std::size_t>(type)] += 1.0;
  }
  const double determinant = 0.7 * 0.6 - 0.1 * 0.2;
  const std::vector<double> want = {(0.6 * 0.2 + 0.1 * 0.1) / determinant,
                                    (0.2 * 0.2 + 0.7 * 0.1) / determinant};
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_NEAR(counts[k] / (kSequences * kEnd), want[k], 0.03 * want[k]) << k;
  }
  EXPECT_EQ(process.simulate(3, 50.0).times, process.simulate(3, 50.0).times);
}

// In the time of its own compensator the process is a Poisson process of rate one: gaps are
// exponential, by Kolmogorov's distance at the level of 1 %.
TEST(Hawkes, RescaledGapsAreExponential) {
  const HawkesProcess process = example_hawkes();
  std::vector<double> gaps;
  for (std::size_t i = 0; i < 50; ++i) {
    const std::vector<double> more = process.rescaled_gaps(process.simulate(derive(9, i), 200.0));
    gaps.insert(gaps.end(), more.begin(), more.end());
  }
  std::ranges::sort(gaps);
  const auto n = static_cast<double>(gaps.size());
  double distance = 0.0;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const double p = -std::expm1(-gaps[i]);
    distance = std::max({distance, std::abs(p - static_cast<double>(i) / n),
                         std::abs(p - static_cast<double>(i + 1) / n)});
  }
  EXPECT_LT(distance, 1.63 / std::sqrt(n));
}

}  // namespace hawkes_test
}  // namespace longspan
