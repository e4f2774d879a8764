#include "longspan/kernels/rows/routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "longspan/base/meter.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace routing_test {

using testing::for_each_target;
using testing::for_each_thread_count;
using testing::GuardedMatrix;

// Routes with memory of their own; scores are random.
struct Routed {
  Routed(std::size_t batch, std::size_t length, std::size_t experts, std::size_t top,
         std::size_t capacity, bool normalize, std::vector<std::int32_t> lengths_ = {})
      : lengths(std::move(lengths_)),
        scores(GuardedMatrix::random(batch * length, experts, 3, 2.0F)),
        p(scores),
        gates(batch * length, top),
        log_sums(batch * length, 1),
        chosen(batch * length * top, 77),
        slots(chosen.size(), 77),
        loads(experts, 77),
        taken(experts, 77) {
    options.sequences.length = length;
    options.tokens =
        lengths.empty()
            ? batch * length
            : static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), 0));
    options.experts = experts;
    options.top = top;
    options.capacity = capacity;
    options.divided = normalize && top > 1;
    sources.assign(options.slots(), 77);
  }
  Routes view() {
    return {p.view(), gates.view(), log_sums.view(), chosen, slots, sources, loads, taken};
  }
  void route() {
    options.sequences.lengths = lengths;  // a copy has its own
    p = scores;
    route_rows(options, view());
  }
  std::size_t rows() const { return scores.view().rows; }
  std::size_t computed() const {
    return static_cast<std::size_t>(std::accumulate(loads.begin(), loads.end(), 0));
  }
  bool real(std::size_t r) const {
    const std::size_t n = options.sequences.length;
    return r % n < options.sequences.real(r / n);
  }

  std::vector<std::int32_t> lengths;
  RouteOptions options;
  GuardedMatrix scores;
  GuardedMatrix p;
  GuardedMatrix gates;
  GuardedMatrix log_sums;
  std::vector<std::int32_t> chosen;
  std::vector<std::int32_t> slots;
  std::vector<std::int32_t> sources;
  std::vector<std::int32_t> loads;
  std::vector<std::int32_t> taken;
};

std::vector<Routed> routed() {
  return {{1, 1, 1, 1, 1, false},
          {2, 5, 1, 1, 10, true},
          {3, 7, 4, 1, 5, false},
          {2, 9, 7, 2, 4, true, {9, 3}},
          {3, 6, 17, 2, 1, false},
          {1, 40, 5, 3, 18, true},
          {3, 5, 3, 3, 9, false, {5, 0, 4}},
          {2, 3, 4, 2, 0, true}};
}

void expect_probabilities(const Routed& c) {
  for (std::size_t r = 0; r < c.rows(); ++r) {
    double sum = 0.0;
    for (std::size_t e = 0; e < c.options.experts; ++e) {
      sum += std::exp(static_cast<double>(c.scores.at(r, e)));
    }
    for (std::size_t e = 0; e < c.options.experts; ++e) {
      const double want = std::exp(static_cast<double>(c.scores.at(r, e))) / sum;
      EXPECT_NEAR(c.p.at(r, e), c.real(r) ? want : 0.0, 1e-6);
    }
  }
}

void expect_choices(const Routed& c) {
  const std::size_t top = c.options.top;
  for (std::size_t r = 0; r < c.rows(); ++r) {
    double sum = 0.0;
    for (std::size_t j = 0; j < top; ++j) {
      const std::int32_t e = c.chosen[r * top + j];
      if (!c.real(r)) {
        EXPECT_EQ(e, -1);
        EXPECT_EQ(c.gates.at(r, j), 0.0F);
        continue;
      }
      std::size_t better = 0;
      for (std::size_t i = 0; i < c.options.experts; ++i) {
        better += c.p.at(r, i) > c.p.at(r, static_cast<std::size_t>(e)) ? 1 : 0;
      }
      EXPECT_EQ(better, j) << "row " << r;
      sum += c.p.at(r, static_cast<std::size_t>(e));
    }
    if (!c.real(r)) continue;
    for (std::size_t j = 0; j < top; ++j) {
      const float p = c.p.at(r, static_cast<std::size_t>(c.chosen[r * top + j]));
      EXPECT_NEAR(c.gates.at(r, j), c.options.divided ? p / sum : p, 1e-6);
    }
  }
}

void expect_slots(const Routed& c) {
  const std::size_t top = c.options.top;
  std::vector<std::vector<std::int32_t>> queue(c.options.experts);
  std::vector<bool> dropped(c.chosen.size(), true);
  for (std::size_t j = 0; j < top; ++j) {
    for (std::size_t r = 0; r < c.rows(); ++r) {
      if (!c.real(r)) continue;
      const auto e = static_cast<std::size_t>(c.chosen[r * top + j]);
      if (queue[e].size() == c.options.capacity) continue;
      queue[e].push_back(static_cast<std::int32_t>(r));
      dropped[r * top + j] = false;
    }
  }
  std::vector<std::int32_t> sources;
  for (std::size_t e = 0; e < queue.size(); ++e) {
    EXPECT_EQ(static_cast<std::size_t>(c.loads[e]), queue[e].size());
    sources.insert(sources.end(), queue[e].begin(), queue[e].end());
  }
  EXPECT_TRUE(std::equal(sources.begin(), sources.end(), c.sources.begin()));
  std::vector<bool> taken(sources.size(), false);
  for (std::size_t i = 0; i < c.chosen.size(); ++i) {
    ASSERT_EQ(c.slots[i] < 0, dropped[i]);
    if (dropped[i]) continue;
    const auto slot = static_cast<std::size_t>(c.slots[i]);
    ASSERT_LT(slot, sources.size());
    EXPECT_FALSE(taken[slot]);
    taken[slot] = true;
    EXPECT_EQ(static_cast<std::size_t>(sources[slot]), i / top);
    const auto first = std::accumulate(c.loads.begin(), c.loads.begin() + c.chosen[i], 0);
    EXPECT_GE(c.slots[i], first);
    EXPECT_LT(c.slots[i], first + c.loads[static_cast<std::size_t>(c.chosen[i])]);
  }
}

TEST(Routing, GivesEveryRowItsPlace) {
  for_each_target([] {
    for (Routed c : routed()) {
      c.route();
      expect_probabilities(c);
      expect_choices(c);
      expect_slots(c);
      EXPECT_TRUE(c.p.intact());
      EXPECT_TRUE(c.gates.intact());
    }
  });
}

TEST(Routing, PrefersTheFirstOfEquals) {
  Routed c(1, 2, 3, 2, 2, false);
  std::ranges::fill(c.scores.view().row(0), 1.0F);
  c.scores.at(1, 0) = 0.0F;
  c.scores.at(1, 1) = c.scores.at(1, 2) = 1.0F;
  c.route();
  EXPECT_EQ(c.chosen, (std::vector<std::int32_t>{0, 1, 1, 2}));
}

TEST(Routing, KeepsToWhatIsDecided) {
  Routed c(2, 9, 7, 2, 4, true, {9, 3});
  c.route();
  const Routed before = c;
  c.scores = GuardedMatrix::random(18, 7, 4, 2.0F);
  c.options.decided = true;
  c.route();
  EXPECT_EQ(c.chosen, before.chosen);
  EXPECT_EQ(c.slots, before.slots);
  EXPECT_EQ(c.loads, before.loads);
  expect_probabilities(c);
  for (std::size_t r = 0; r < 12; ++r) {
    const float a = c.p.at(r, static_cast<std::size_t>(std::max(0, c.chosen[2 * r])));
    const float b = c.p.at(r, static_cast<std::size_t>(std::max(0, c.chosen[2 * r + 1])));
    EXPECT_NEAR(c.gates.at(r, 0), a / (a + b), 1e-6);
  }
}

TEST(Routing, ChoosesExpertsWhateverTheScores) {
  Routed c(1, 2, 3, 2, 2, true);
  std::ranges::fill(c.scores.view().row(0), std::numeric_limits<float>::quiet_NaN());
  std::ranges::fill(c.scores.view().row(1), -std::numeric_limits<float>::infinity());
  c.route();
  EXPECT_EQ(c.chosen, (std::vector<std::int32_t>{0, 1, 0, 1}));
}

TEST(Routing, WeighsSlots) {
  for_each_target([] {
    for (Routed c : routed()) {
      c.route();
      for (const std::size_t d : {1U, 7U, 16U, 67U}) {
        const GuardedMatrix o = GuardedMatrix::random(c.computed(), d, 5);
        GuardedMatrix y = GuardedMatrix::random(c.rows(), d, 6);
        combine_slots(c.view(), o.view(), /*add=*/false, y.view());
        for (std::size_t r = 0; r < c.rows(); ++r) {
          for (std::size_t i = 0; i < d; ++i) {
            double want = 0.0;
            for (std::size_t j = 0; j < c.options.top; ++j) {
              const std::int32_t slot = c.slots[r * c.options.top + j];
              if (slot >= 0) {
                want += static_cast<double>(c.gates.at(r, j)) *
                        static_cast<double>(o.at(static_cast<std::size_t>(slot), i));
              }
            }
            EXPECT_NEAR(y.at(r, i), want, 1e-6);
          }
        }
        EXPECT_TRUE(y.intact());
      }
    }
  });
}

TEST(Routing, SendsGradientsToSlotsAndGates) {
  for_each_target([] {
    for (Routed c : routed()) {
      c.route();
      for (const std::size_t d : {1U, 7U, 16U, 67U}) {
        const GuardedMatrix o = GuardedMatrix::random(c.computed(), d, 5);
        const GuardedMatrix dy = GuardedMatrix::random(c.rows(), d, 6);
        GuardedMatrix dgates = GuardedMatrix::random(c.rows(), c.options.top, 7);
        GuardedMatrix d_o = GuardedMatrix::random(c.computed(), d, 8);
        combine_slots_backward(c.view(), o.view(), dy.view(), dgates.view(), d_o.view());
        for (std::size_t i = 0; i < c.slots.size(); ++i) {
          const std::size_t r = i / c.options.top;
          double dot = 0.0;
          if (c.slots[i] >= 0) {
            const auto slot = static_cast<std::size_t>(c.slots[i]);
            for (std::size_t k = 0; k < d; ++k) {
              dot += static_cast<double>(dy.at(r, k)) * static_cast<double>(o.at(slot, k));
              EXPECT_EQ(d_o.at(slot, k), c.gates.at(r, i % c.options.top) * dy.at(r, k));
            }
          }
          EXPECT_NEAR(dgates.at(r, i % c.options.top), dot, 1e-5);
        }
        EXPECT_TRUE(dgates.intact());
        EXPECT_TRUE(d_o.intact());
      }
    }
  });
}

// Of row r, Σ dg·g and the part of the losses on all rows, in double.
double objective(const Routed& c, const GuardedMatrix& dgates, const RouteLoss& loss,
                 const std::vector<double>& scores, std::size_t r) {
  double sum = 0.0;
  for (const double s : scores) sum += std::exp(s);
  double chosen = 0.0;
  for (std::size_t j = 0; j < c.options.top; ++j) {
    chosen += std::exp(scores[static_cast<std::size_t>(c.chosen[r * c.options.top + j])]) / sum;
  }
  double value = 0.0;
  for (std::size_t j = 0; j < c.options.top; ++j) {
    const auto e = static_cast<std::size_t>(c.chosen[r * c.options.top + j]);
    value += static_cast<double>(dgates.at(r, j)) * std::exp(scores[e]) / sum /
             (c.options.divided ? chosen : 1.0);
  }
  const auto experts = static_cast<double>(scores.size());
  const double n = loss.tally->rows[0];
  for (std::size_t e = 0; e < scores.size(); ++e) {
    value += loss.balance * experts * loss.tally->choices[e] * std::exp(scores[e]) / sum / (n * n);
  }
  return value + loss.squares * std::log(sum) * std::log(sum) / n;
}

TEST(Routing, SendsGradientsToScores) {
  for_each_target([] {
    for (Routed c : routed()) {
      c.options.squares = true;
      c.route();
      const GuardedMatrix dgates = GuardedMatrix::random(c.rows(), c.options.top, 7);
      GuardedMatrix dr = GuardedMatrix::random(c.rows(), c.options.experts, 8);
      RouteTally tally;
      const TallyOptions how{.choices = Tallied::kFirst, .sequences = false, .real = c.lengths};
      tally_routes(c.options, c.view(), how, tally);
      const RouteLoss loss{&tally, how, 0.75, 0.5};
      route_backward(c.options, c.view(), dgates.view(), loss, dr.view());
      for (std::size_t r = 0; r < c.rows(); ++r) {
        const std::span<const float> row = std::as_const(c.scores).view().row(r);
        for (std::size_t e = 0; e < c.options.experts; ++e) {
          if (!c.real(r)) {
            EXPECT_EQ(dr.at(r, e), 0.0F);
            continue;
          }
          const auto moved = [&](double by) {
            std::vector<double> scores(row.begin(), row.end());
            scores[e] += by;
            return objective(c, dgates, loss, scores, r);
          };
          EXPECT_NEAR(dr.at(r, e), (moved(1e-5) - moved(-1e-5)) / 2e-5, 2e-6);
        }
      }
      EXPECT_TRUE(dr.intact());
    }
  });
}

TEST(Routing, TalliesWhatBalances) {
  for (Routed c : routed()) {
    c.options.squares = true;
    c.route();
    const std::size_t n = c.options.sequences.length;
    for (const bool sequences : {false, true}) {
      const TallyOptions how{.choices = Tallied::kAll, .sequences = sequences, .real = c.lengths};
      RouteTally tally;
      tally_routes(c.options, c.view(), how, tally);
      tally_routes(c.options, c.view(), how, tally);  // another layer
      const std::size_t groups = sequences ? c.rows() / n : 1;
      double balance = 0.0;
      double squares = 0.0;
      double all = 0.0;
      for (std::size_t g = 0; g < groups; ++g) {
        std::vector<double> count(c.options.experts, 0.0);
        std::vector<double> sum(c.options.experts, 0.0);
        double rows = 0.0;
        for (std::size_t r = g * n; r < (sequences ? (g + 1) * n : c.rows()); ++r) {
          if (!c.real(r)) continue;
          rows += 2.0;
          double exponentials = 0.0;
          for (std::size_t e = 0; e < c.options.experts; ++e) {
            sum[e] += 2.0 * static_cast<double>(c.p.at(r, e));
            exponentials += std::exp(static_cast<double>(c.scores.at(r, e)));
          }
          for (std::size_t j = 0; j < c.options.top; ++j) {
            count[static_cast<std::size_t>(c.chosen[r * c.options.top + j])] += 2.0;
          }
          squares += 2.0 * std::log(exponentials) * std::log(exponentials);
        }
        for (std::size_t e = 0; e < c.options.experts && rows > 0.0; ++e) {
          balance += count[e] / rows * sum[e] / rows;
        }
        all += rows;
      }
      balance *= static_cast<double>(c.options.experts) / static_cast<double>(groups);
      EXPECT_NEAR(tally.balance(), balance, 1e-5 * balance);
      EXPECT_NEAR(tally.mean_square(), all > 0.0 ? squares / all : 0.0, 1e-5 * squares);
      tally.clear();
      EXPECT_EQ(tally.experts, 0U);
    }
  }
}

TEST(Routing, ChoosesAmongTheBestGroups) {
  // Groups {0, 1}, {2, 3}, {4, 5}. By their best: 4, 2 and 0 are those of 2.0, 1.5 and 1.4.
  Routed c(1, 1, 6, 2, 1, false);
  const std::vector<float> scores = {1.4F, 1.3F, 1.5F, -3.0F, 2.0F, -3.0F};
  c.options.groups = 3;
  c.options.top_groups = 2;
  std::ranges::copy(scores, c.scores.view().row(0).begin());
  c.route();
  EXPECT_EQ(c.chosen, (std::vector<std::int32_t>{4, 2}));
  c.options.group_score = GroupScore::kTwoBest;  // 0 and 1 together are more than 2 and 3
  c.route();
  EXPECT_EQ(c.chosen, (std::vector<std::int32_t>{4, 0}));
  c.options.top_groups = 1;
  c.route();
  EXPECT_EQ(c.chosen, (std::vector<std::int32_t>{0, 1}));
  // Corrections decide, and weigh nothing.
  const std::vector<float> correction = {0.0F, 0.0F, 0.0F, 5.0F, 0.0F, 0.0F};
  c.options.correction = correction;
  c.route();
  EXPECT_EQ(c.chosen, (std::vector<std::int32_t>{3, 2}));
  EXPECT_EQ(c.gates.at(0, 0), c.p.at(0, 3));
  // Groups that are left have the value 0, more than what is below it.
  const std::vector<float> below = {-9.0F, -9.0F, -8.0F, -7.0F, -9.0F, -9.0F};
  c.options.correction = below;
  c.route();
  EXPECT_EQ(c.chosen, (std::vector<std::int32_t>{0, 1}));
}

TEST(Routing, WeighsSigmoids) {
  for_each_target([] {
    Routed c(2, 5, 7, 3, 10, true, {5, 2});
    c.options.score = RouteScore::kSigmoid;
    c.options.scaling = 2.5F;
    c.route();
    for (std::size_t r = 0; r < c.rows(); ++r) {
      double sum = 0.0;
      double gates = 0.0;
      for (std::size_t e = 0; e < 7; ++e) {
        const double want = 1.0 / (1.0 + std::exp(-static_cast<double>(c.scores.at(r, e))));
        EXPECT_NEAR(c.p.at(r, e), c.real(r) ? want : 0.0, 1e-6);
      }
      for (std::size_t j = 0; c.real(r) && j < 3; ++j) {
        sum += static_cast<double>(c.p.at(r, static_cast<std::size_t>(c.chosen[r * 3 + j])));
        gates += static_cast<double>(c.gates.at(r, j));
      }
      if (!c.real(r)) continue;
      EXPECT_NEAR(gates, 2.5, 1e-6);
      const float first = c.p.at(r, static_cast<std::size_t>(c.chosen[r * 3]));
      EXPECT_NEAR(c.gates.at(r, 0), 2.5 * static_cast<double>(first) / sum, 1e-6);
    }
    // As little as a float holds: no gate is NaN.
    std::ranges::fill(c.scores.view().row(0), -200.0F);
    c.route();
    EXPECT_EQ(c.gates.at(0, 0), 0.0F);
  });
}

TEST(Routing, LetsPassWhatNobodyTakes) {
  Routed c(3, 5, 3, 1, 4, false, {5, 5, 3});
  for (std::size_t r = 0; r < c.rows(); ++r) {
    for (std::size_t e = 0; e < 3; ++e) c.scores.at(r, e) = e == 1 ? 1.0F : 0.0F;
  }
  c.options.places = 2;
  c.options.passes = true;
  c.sources.assign(c.options.slots(), 77);
  c.route();
  EXPECT_EQ(c.loads, (std::vector<std::int32_t>{0, 6, 0}));
  EXPECT_EQ(c.slots, (std::vector<std::int32_t>{0, 1, 6, 7, 8, 2, 3, 9, 10, 11, 4, 5, 12, -1, -1}));
  EXPECT_EQ(c.sources, (std::vector<std::int32_t>{0, 1, 5, 6, 10, 11, 2, 3, 4, 7, 8, 9, 12}));
  c.options.passes = false;
  c.route();
  EXPECT_EQ(c.slots,
            (std::vector<std::int32_t>{0, 1, -1, -1, -1, 2, 3, -1, -1, -1, 4, 5, -1, -1, -1}));
  // What is not taken counts for expert 0.
  RouteTally tally;
  tally_routes(c.options, c.view(), {.choices = Tallied::kTaken, .sequences = true}, tally);
  EXPECT_EQ(tally.choices, (std::vector<double>{3, 2, 0, 3, 2, 0, 1, 2, 0}));
}

TEST(Routing, GatesRows) {
  for_each_target([] {
    for (const std::size_t d : {1U, 7U, 67U}) {
      const GuardedMatrix r = GuardedMatrix::random(5, 1, 3, 2.0F);
      const GuardedMatrix o = GuardedMatrix::random(5, d, 4);
      const GuardedMatrix dy = GuardedMatrix::random(5, d, 5);
      GuardedMatrix g = r;
      GuardedMatrix y(5, d);
      gate_rows(g.view(), o.view(), y.view());
      GuardedMatrix dr(5, 1);
      GuardedMatrix d_o(5, d);
      gate_rows_backward(g.view(), o.view(), dy.view(), dr.view(), d_o.view());
      for (std::size_t i = 0; i < 5; ++i) {
        const double gate = 1.0 / (1.0 + std::exp(-static_cast<double>(r.at(i, 0))));
        double dot = 0.0;
        for (std::size_t j = 0; j < d; ++j) {
          EXPECT_NEAR(y.at(i, j), gate * static_cast<double>(o.at(i, j)), 1e-6);
          EXPECT_NEAR(d_o.at(i, j), gate * static_cast<double>(dy.at(i, j)), 1e-6);
          dot += static_cast<double>(dy.at(i, j)) * static_cast<double>(o.at(i, j));
        }
        EXPECT_NEAR(dr.at(i, 0), dot * gate * (1.0 - gate), 1e-5);
      }
      EXPECT_TRUE(y.intact() && g.intact() && dr.intact() && d_o.intact());
    }
  });
}

TEST(Routing, IsTheSameOnAnyNumberOfThreads) {
  std::vector<GuardedMatrix> first;
  for_each_thread_count([&] {
    Routed c(3, 700, 64, 2, 41, true, {700, 1, 650});
    c.route();
    const GuardedMatrix o = GuardedMatrix::random(c.computed(), 67, 5);
    GuardedMatrix y(c.rows(), 67);
    GuardedMatrix dgates(c.rows(), 2);
    GuardedMatrix d_o(c.computed(), 67);
    GuardedMatrix dr(c.rows(), 64);
    combine_slots(c.view(), o.view(), /*add=*/false, y.view());
    combine_slots_backward(c.view(), o.view(), y.view(), dgates.view(), d_o.view());
    RouteTally tally;
    const TallyOptions how{.choices = Tallied::kAll, .sequences = true, .real = c.lengths};
    tally_routes(c.options, c.view(), how, tally);
    route_backward(c.options, c.view(), dgates.view(), {&tally, how, 0.1, 0.0}, dr.view());
    const std::vector<GuardedMatrix> got = {c.p, c.gates, y, dgates, d_o, dr};
    if (first.empty()) first = got;
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i] == first[i]) << i;
  });
}

TEST(Routing, ReportsWhatItDid) {
  Routed c(2, 9, 7, 2, 4, true, {9, 3});  // 12 tokens
  const auto counted = [](const auto& step) {
    Meter meter;
    const Meter::Use use(meter);
    const Place::Scope scope("routing", Phase::kForward);
    step();
    return meter.at("routing", Phase::kForward);
  };
  Work work = counted([&] { c.route(); });
  EXPECT_EQ(work[Kind::kSoftmax], 12U * (5 * 7 + 3));
  EXPECT_EQ(work[Kind::kSort], 12U * 2 * 8);
  GuardedMatrix dgates(18, 2);
  GuardedMatrix dr(18, 7);
  work = counted([&] { route_backward(c.options, c.view(), dgates.view(), {}, dr.view()); });
  EXPECT_EQ(work[Kind::kSoftmax], 12U * (5 * 7 + 2 + 8));
  c.options.divided = false;
  c.options.decided = true;
  work = counted([&] { c.route(); });
  EXPECT_EQ(work[Kind::kSoftmax], 12U * 5 * 7);
  EXPECT_EQ(work[Kind::kSort], 12U * 2);
  work = counted([&] { route_backward(c.options, c.view(), dgates.view(), {}, dr.view()); });
  EXPECT_EQ(work[Kind::kSoftmax], 12U * (5 * 7 + 2));
  GuardedMatrix o(c.computed(), 5);
  GuardedMatrix y(18, 5);
  work = counted([&] { combine_slots(c.view(), o.view(), /*add=*/false, y.view()); });
  EXPECT_EQ(work[Kind::kGather], 2 * c.computed() * 5);
  work = counted(
      [&] { combine_slots_backward(c.view(), o.view(), y.view(), dgates.view(), o.view()); });
  EXPECT_EQ(work.maccs, c.computed() * 5);
  EXPECT_EQ(work[Kind::kGather], c.computed() * 5);
  RouteTally tally;
  work = counted([&] { tally_routes(c.options, c.view(), {.real = c.lengths}, tally); });
  EXPECT_EQ(work[Kind::kAdd], 12U * 7 + 2 * 7);
  GuardedMatrix gate(18, 1);
  work = counted([&] { gate_rows(gate.view(), y.view(), y.view()); });
  EXPECT_EQ(work[Kind::kActivation], 18U * (5 + 4));
  work =
      counted([&] { gate_rows_backward(gate.view(), y.view(), y.view(), gate.view(), y.view()); });
  EXPECT_EQ(work[Kind::kActivation], 18U * (5 + 3));
  EXPECT_EQ(work.maccs, 18U * 5);
}

TEST(Routing, ReportsWhatReleasedModelsDo) {
  const std::vector<float> correction(8, 0.1F);
  Routed c(2, 9, 8, 3, 9, true, {9, 3});  // 12 tokens
  c.options.score = RouteScore::kSigmoid;
  c.options.correction = correction;
  c.options.groups = 4;
  c.options.top_groups = 2;
  c.options.group_score = GroupScore::kTwoBest;
  c.options.scaling = 1.5F;
  GuardedMatrix dgates(18, 3);
  GuardedMatrix dr(18, 8);
  const auto counted = [](const auto& step) {
    Meter meter;
    const Meter::Use use(meter);
    const Place::Scope scope("routing", Phase::kForward);
    step();
    return meter.at("routing", Phase::kForward);
  };
  Work work = counted([&] { c.route(); });
  EXPECT_EQ(work[Kind::kSoftmax], 12U * (4 * 8 + 2 * 3 + 3 + 8 + 4));
  EXPECT_EQ(work[Kind::kSort], 12U * (3 * 9 + 2 * 8 + 2 * 5));
  work = counted([&] { route_backward(c.options, c.view(), dgates.view(), {}, dr.view()); });
  EXPECT_EQ(work[Kind::kSoftmax], 12U * (4 * 8 + 3 + 12 + 3));
  c.options.score = RouteScore::kSoftmax;
  c.options.squares = true;
  c.options.decided = true;
  work = counted([&] { c.route(); });
  EXPECT_EQ(work[Kind::kSoftmax], 12U * (5 * 8 + 2 * 3 - 1 + 3 + 10));
  EXPECT_EQ(work[Kind::kSort], 12U * 3);
  work = counted([&] { route_backward(c.options, c.view(), dgates.view(), {}, dr.view()); });
  EXPECT_EQ(work[Kind::kSoftmax], 12U * (5 * 8 + 3 + 12 + 3 + 18));
}

}  // namespace routing_test
}  // namespace longspan
