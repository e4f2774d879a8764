#include "longspan/cost/crossover.h"

#include <gtest/gtest.h>

#include <random>

namespace longspan {
namespace crossover_test {

using symbols::d, symbols::f, symbols::k, symbols::L, symbols::n, symbols::N, symbols::v;
using Kind = Condition::Kind;

TEST(Condition, AttentionIsDearerThanItsProjectionsFromTwiceTheWidth) {
  const Condition when = when_greater(2 * n * n * d, 4 * n * d * d, n);
  EXPECT_EQ(when.kind, Kind::kClosed);
  EXPECT_EQ(when.text, "n > 2·d");
  EXPECT_EQ(when.latex, "n > 2d");
  const Crossover at = crossover(2 * n * n * d, 4 * n * d * d, n, {{d, 768}});
  ASSERT_TRUE(at.from);
  EXPECT_EQ(*at.from, 1537);
  EXPECT_EQ(at.where, (std::vector<Interval>{{1537, std::nullopt}}));
  EXPECT_EQ(at.condition.text, "n > 2·d");
}

TEST(Condition, WritesQuotients) {
  EXPECT_EQ(when_greater(2 * L * n * n * d, 2 * n * v * d, n).text, "n > v/L");
  EXPECT_EQ(when_greater(2 * L * n * n * d, n * v * d, n).text, "n > v/(2·L)");
  EXPECT_EQ(when_greater(2 * L * n * n * d, n * v * d, n).latex, "n > \\frac{v}{2L}");
  EXPECT_EQ(when_greater(2 * n, v + d, n).text, "n > (d + v)/2");
  EXPECT_EQ(when_greater((L + d) * n, 3 * v, n).text, "n > 3·v/(L + d)");
  EXPECT_EQ(when_greater(d * d * n, 3 * v, n).text, "n > 3·v/d²");
  EXPECT_EQ(when_greater(v, 3 * n, n).text, "n < v/3");
  EXPECT_EQ(when_greater(v, 3 * n, n).latex, "n < \\frac{v}{3}");
}

TEST(Condition, SaysAlwaysNeverAndWhenItCannotBeSolved) {
  EXPECT_EQ(when_greater(n + d, n, n).kind, Kind::kAlways);
  EXPECT_EQ(when_greater(n + d, n, n).text, "always");
  EXPECT_EQ(when_greater(n, n + d, n).kind, Kind::kNever);
  EXPECT_EQ(when_greater(n, n, n).text, "never");
  const Condition square = when_greater(L * n * n * n + n * d, n * v, n);
  EXPECT_EQ(square.kind, Kind::kOpen);
  EXPECT_EQ(square.text, "L·n² + d > v");
  EXPECT_EQ(square.left, L * n * n + d);
  EXPECT_EQ(square.right, v);
  // The slope d − f has no sign of its own.
  EXPECT_EQ(when_greater(d * n + v, f * n + 2 * v, n).kind, Kind::kOpen);
}

TEST(Crossover, FindsEveryIntervalOrNone) {
  // n² − 10n + 21 = (n − 3)(n − 7)
  const Crossover both = crossover(n * n + 21, 10 * n, n, {});
  EXPECT_EQ(both.where, (std::vector<Interval>{{1, 2}, {8, std::nullopt}}));
  EXPECT_EQ(*both.from, 8);
  const Crossover between = crossover(10 * n, n * n + 21, n, {});
  EXPECT_EQ(between.where, (std::vector<Interval>{{4, 6}}));
  EXPECT_FALSE(between.from);
  const Crossover never = crossover(n, n * n + 1, n, {});
  EXPECT_TRUE(never.where.empty());
  EXPECT_FALSE(never.from);
  const Crossover always = crossover(n + 1, n, n, {});
  EXPECT_EQ(*always.from, 1);
  EXPECT_FALSE(crossover(n, n, n, {}).from);
  // Touches zero at 5 without going below.
  const Crossover touches = crossover(n * n + 25, 10 * n, n, {});
  EXPECT_EQ(touches.where, (std::vector<Interval>{{1, 4}, {6, std::nullopt}}));
}

TEST(Crossover, IsExactFarOut) {
  const Integer far = (Integer{1} << 60) + 12345;
  EXPECT_EQ(*crossover(n, v, n, {{v, far}}).from, far + 1);
  EXPECT_EQ(*crossover(n * n * n * n, v * n * n * n, n, {{v, far}}).from, far + 1);
  // n³ against 2^96 − 1 and 2^96: 2^32 is the least above the first only.
  const Integer cube = Integer{1} << 96;
  EXPECT_EQ(*crossover(n * n * n, v, n, {{v, cube - 1}}).from, Integer{1} << 32);
  EXPECT_EQ(*crossover(n * n * n, v, n, {{v, cube}}).from, (Integer{1} << 32) + 1);
}

// Against trying every length.
TEST(Crossover, AgreesWithTryingEveryLength) {
  std::mt19937_64 random(11);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  constexpr int kLast = 400;
  int mixed = 0;
  for (int round = 0; round < 400; ++round) {
    // Products of roots inside the range, so that signs change there, and a shift.
    Polynomial gap = pick(0, 1) == 0 ? 1 : -1;
    for (int roots = pick(1, 4); roots > 0; --roots) gap *= 2 * n - pick(-20, 300);
    gap += pick(-1000, 1000);
    gap *= pick(0, 1) == 0 ? Polynomial(1) : n * d;
    const Crossover found = crossover(gap + k, k, n, {{d, 3}, {k, 5}});
    std::vector<bool> inside(kLast + 1, false);
    for (const Interval& interval : found.where) {
      for (Integer i = interval.first; i <= interval.last.value_or(kLast) && i <= kLast; ++i) {
        inside[static_cast<std::size_t>(i)] = true;
      }
    }
    for (int i = 1; i <= kLast; ++i) {
      ASSERT_EQ(gap.evaluate({{n, i}, {d, 3}}) > 0, inside[i]) << gap.text() << " at " << i;
    }
    if (found.from && *found.from <= kLast) {
      EXPECT_TRUE(*found.from == 1 || gap.evaluate({{n, *found.from - 1}, {d, 3}}) <= 0);
    }
    mixed += found.where.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(mixed, 50);
}

TEST(Crossover, RefusesWhatItCannotDecide) {
  EXPECT_THROW(crossover(n * d, n, n, {}), Error);  // d has no value
  EXPECT_THROW(crossover(n * d, v, n, {{d, 0}, {v, 3}}), Error);
  EXPECT_THROW(crossover(n * n + d, v * n, n, {{d, 1}, {v, Integer{1} << 101}}), Error);
}

}  // namespace crossover_test
}  // namespace longspan
