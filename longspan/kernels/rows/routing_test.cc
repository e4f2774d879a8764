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
        chosen(batch * length * top, 77),
        slots(chosen.size(), 77),
        loads(experts, 77),
        firsts(experts, 77) {
    options.sequences.length = length;
    options.tokens =
        lengths.empty()
            ? batch * length
            : static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), 0));
    options.experts = experts;
    options.top = top;
    options.capacity = capacity;
    options.normalize = normalize;
    sources.assign(options.slots(), 77);
  }
  Routes view() { return {p.view(), gates.view(), chosen, slots, sources, loads, firsts}; }
  void route() {
    options.sequences.lengths = lengths;  // a copy has its own
    p = scores;
    route_rows(options, view());
  }
  std::size_t rows() const { return scores.view().rows; }
  std::size_t taken() const {
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
  std::vector<std::int32_t> chosen;
  std::vector<std::int32_t> slots;
  std::vector<std::int32_t> sources;
  std::vector<std::int32_t> loads;
  std::vector<std::int32_t> firsts;
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
      EXPECT_NEAR(c.gates.at(r, j), c.options.divides() ? p / sum : p, 1e-6);
    }
  }
}

void expect_slots(const Routed& c) {
  const std::size_t top = c.options.top;
  std::vector<std::vector<std::int32_t>> queue(c.options.experts);
  std::vector<std::int32_t> firsts(c.options.experts, 0);
  std::vector<bool> dropped(c.chosen.size(), true);
  for (std::size_t j = 0; j < top; ++j) {
    for (std::size_t r = 0; r < c.rows(); ++r) {
      if (!c.real(r)) continue;
      const auto e = static_cast<std::size_t>(c.chosen[r * top + j]);
      firsts[e] += j == 0 ? 1 : 0;
      if (queue[e].size() == c.options.capacity) continue;
      queue[e].push_back(static_cast<std::int32_t>(r));
      dropped[r * top + j] = false;
    }
  }
  EXPECT_EQ(c.firsts, firsts);
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
        const GuardedMatrix o = GuardedMatrix::random(c.taken(), d, 5);
        GuardedMatrix y = GuardedMatrix::random(c.rows(), d, 6);
        combine_slots(c.view(), o.view(), y.view());
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
        const GuardedMatrix o = GuardedMatrix::random(c.taken(), d, 5);
        const GuardedMatrix dy = GuardedMatrix::random(c.rows(), d, 6);
        GuardedMatrix dgates = GuardedMatrix::random(c.rows(), c.options.top, 7);
        GuardedMatrix d_o = GuardedMatrix::random(c.taken(), d, 8);
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

// Σ dg·g + balance·Σ_e firsts_e·Σ_t p[t, e] with the choices of c, in double.
double objective(const Routed& c, const GuardedMatrix& dgates, double balance,
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
             (c.options.divides() ? chosen : 1.0);
  }
  for (std::size_t e = 0; e < scores.size(); ++e) {
    value += balance * c.firsts[e] * std::exp(scores[e]) / sum;
  }
  return value;
}

TEST(Routing, SendsGradientsToScores) {
  for_each_target([] {
    for (Routed c : routed()) {
      c.route();
      const GuardedMatrix dgates = GuardedMatrix::random(c.rows(), c.options.top, 7);
      GuardedMatrix dr = GuardedMatrix::random(c.rows(), c.options.experts, 8);
      route_backward(c.options, c.view(), dgates.view(), 0.25F, dr.view());
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
            return objective(c, dgates, 0.25, scores, r);
          };
          EXPECT_NEAR(dr.at(r, e), (moved(1e-5) - moved(-1e-5)) / 2e-5, 2e-6);
        }
      }
      EXPECT_TRUE(dr.intact());
    }
  });
}

TEST(Routing, SumsWhatBalances) {
  for (Routed c : routed()) {
    c.route();
    double want = 0.0;
    for (std::size_t r = 0; r < c.rows(); ++r) {
      for (std::size_t e = 0; e < c.options.experts; ++e) {
        want += c.firsts[e] * static_cast<double>(c.p.at(r, e));
      }
    }
    GuardedMatrix sums = GuardedMatrix::random(1, c.options.experts, 9);
    EXPECT_NEAR(balance_sum(c.view(), sums.view()), want, 1e-5 * want);
    EXPECT_TRUE(sums.intact());
  }
}

TEST(Routing, IsTheSameOnAnyNumberOfThreads) {
  std::vector<GuardedMatrix> first;
  for_each_thread_count([&] {
    Routed c(3, 700, 64, 2, 41, true, {700, 1, 650});
    c.route();
    const GuardedMatrix o = GuardedMatrix::random(c.taken(), 67, 5);
    GuardedMatrix y(c.rows(), 67);
    GuardedMatrix dgates(c.rows(), 2);
    GuardedMatrix d_o(c.taken(), 67);
    GuardedMatrix dr(c.rows(), 64);
    combine_slots(c.view(), o.view(), y.view());
    combine_slots_backward(c.view(), o.view(), y.view(), dgates.view(), d_o.view());
    route_backward(c.options, c.view(), dgates.view(), 0.1F, dr.view());
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
  work = counted([&] { route_backward(c.options, c.view(), dgates.view(), 0.1F, dr.view()); });
  EXPECT_EQ(work[Kind::kSoftmax], 12U * (5 * 7 + 2 + 8));
  c.options.normalize = false;
  c.options.decided = true;
  work = counted([&] { c.route(); });
  EXPECT_EQ(work[Kind::kSoftmax], 12U * 5 * 7);
  EXPECT_EQ(work[Kind::kSort], 12U * 2);
  work = counted([&] { route_backward(c.options, c.view(), dgates.view(), 0.1F, dr.view()); });
  EXPECT_EQ(work[Kind::kSoftmax], 12U * (5 * 7 + 2));
  GuardedMatrix o(c.taken(), 5);
  GuardedMatrix y(18, 5);
  work = counted([&] { combine_slots(c.view(), o.view(), y.view()); });
  EXPECT_EQ(work[Kind::kGather], 2 * c.taken() * 5);
  work = counted(
      [&] { combine_slots_backward(c.view(), o.view(), y.view(), dgates.view(), o.view()); });
  EXPECT_EQ(work.maccs, c.taken() * 5);
  EXPECT_EQ(work[Kind::kGather], c.taken() * 5);
  work = counted([&] { balance_sum(c.view(), dr.view().slice_rows(0, 1)); });
  EXPECT_EQ(work[Kind::kAdd], 18U * 7 + 2 * 7);
}

}  // namespace routing_test
}  // namespace longspan
