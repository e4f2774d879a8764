#include "longspan/tasks/events/hawkes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "longspan/io/text_lines.h"
#include "longspan/tasks/events/waits.h"

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
               EventScore score;
               example_hawkes().judge(events, 200.0, 10.0, score);
               EXPECT_EQ(score.events, events.times.size());
               EXPECT_NEAR(score.log_likelihood, value.at("loglik").get<double>(), 1e-4);
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

EventScore judged(const HawkesProcess& process, std::span<const EventSequence> all, double window) {
  EventScore score;
  for (const EventSequence& events : all) process.judge(events, window, 50.0, score);
  return score;
}

std::vector<EventSequence> drawn(RandomKey key, std::size_t count) {
  std::vector<EventSequence> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(example_hawkes().simulate(derive(key, i), 200.0));
  }
  return all;
}

// In the time of its own compensator the process is a Poisson process of rate one, and no other
// process is.
TEST(Hawkes, RescaledGapsAreExponential) {
  const std::vector<EventSequence> all = drawn(9, 50);
  const auto fit = exponential_fit(judged(example_hawkes(), all, 200.0).rescaled);
  EXPECT_GT(fit.p, 0.05);
  EXPECT_LT(fit.distance, 0.02);
  HawkesProcess other = example_hawkes();
  other.decay = 1.0;
  EXPECT_LT(exponential_fit(judged(other, all, 200.0).rescaled).p, 1e-3);
}

// Without a window the first event is history alone, and what comes behind the last is not seen.
TEST(Hawkes, IsJudgedBehindTheFirstEvent) {
  const HawkesProcess process = example_hawkes();
  const EventSequence events{{3.0, 3.5}, {0, 1}};
  EventScore score;
  process.judge(events, 0.0, 10.0, score);
  EXPECT_EQ(score.events, 1);
  const double excited = 0.2 * 2.0 * std::exp(-1.0);
  const double passed = 0.3 * 0.5 + 0.5 * (1.0 - std::exp(-1.0));
  EXPECT_NEAR(score.log_likelihood, std::log(0.1 + excited) - passed, 1e-12);
  EXPECT_NEAR(score.rescaled[0], passed, 1e-12);
}

TEST(Hawkes, PoissonIsFittedByCounting) {
  const std::vector<EventSequence> all = {{{1.0, 2.0}, {0, 1}}, {{}, {}}, {{4.0}, {0}}};
  const HawkesProcess process = fit_poisson(all, 3, 10.0);
  // Three events in thirty, of which a type that never came has its part.
  const double each = 3.0 / 30.0 / 3.5;
  EXPECT_NEAR(process.base[0], 2.0 * each, 1e-12);
  EXPECT_NEAR(process.base[1], 1.0 * each, 1e-12);
  EXPECT_NEAR(process.base[2], 0.5 * each, 1e-12);
  EXPECT_NEAR(judged(process, all, 10.0).log_likelihood,
              2.0 * std::log(2.0 * each) + std::log(each) - 3.0, 1e-9);
  EXPECT_NEAR(fit_poisson(all, 2, 10.0).base[0], 2.0 / 30.0, 1e-12);
}

// From its own sequences the process comes back, and on others it is as good as the true one.
TEST(Hawkes, IsFittedFromItsSequences) {
  const HawkesProcess truth = example_hawkes();
  const HawkesProcess fitted = fit_hawkes(drawn(21, 200), 2, 200.0);
  EXPECT_NEAR(fitted.decay, truth.decay, 0.2);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(fitted.base[i], truth.base[i], 0.02) << i;
    for (std::size_t j = 0; j < 2; ++j) {
      EXPECT_NEAR(fitted.influence[i][j], truth.influence[i][j], 0.05) << i << j;
    }
  }
  const std::vector<EventSequence> others = drawn(22, 50);
  const EventScore best = judged(truth, others, 200.0);
  const EventScore near = judged(fitted, others, 200.0);
  EXPECT_NEAR(near.log_likelihood / static_cast<double>(near.events),
              best.log_likelihood / static_cast<double>(best.events), 0.005);
  // Without windows too.
  EXPECT_NEAR(fit_hawkes(drawn(21, 200), 2, 0.0).decay, truth.decay, 0.2);
}

}  // namespace hawkes_test
}  // namespace longspan
