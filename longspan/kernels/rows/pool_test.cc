#include "longspan/kernels/rows/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace pool_test {

using testing::for_each_target;
using testing::GuardedMatrix;

// The rows that each pooled row is made of, written out.
std::vector<std::vector<std::size_t>> windows(const Pooling& p) {
  std::vector<std::size_t> order;
  if (p.cls) order.push_back(0);  // the first row twice
  for (std::size_t i = 0; i < p.length - (p.cls && p.truncated ? 1 : 0); ++i) order.push_back(i);
  std::vector<std::vector<std::size_t>> all;
  for (std::size_t i = 0; i < order.size(); i += 2) {
    all.push_back({order[i]});
    if (i + 1 < order.size() && order[i + 1] != order[i]) all.back().push_back(order[i + 1]);
  }
  return all;
}

// Lengths from 2 on, every option.
template <class F>
void for_each_pooling(F f) {
  for (std::size_t length = 2; length < 10; ++length) {
    for (const bool maximum : {false, true}) {
      for (const bool cls : {false, true}) {
        for (const bool truncated : {false, true}) {
          f({.batch = 2,
             .length = length,
             .maximum = maximum,
             .cls = cls,
             .truncated = cls && truncated});
        }
      }
    }
  }
}

Work heard(const std::function<void()>& run) {
  Meter meter;
  const Meter::Use use(meter);
  const Place::Scope scope("pool", Phase::kForward);
  run();
  return meter.at("pool", Phase::kForward);
}

TEST(Pool, PoolsPairs) {
  for_each_target([] {
    for_each_pooling([](const Pooling& p) {
      const auto all = windows(p);
      ASSERT_EQ(p.pooled(), all.size());
      constexpr std::size_t kCols = 19;
      const GuardedMatrix x = GuardedMatrix::random(2 * p.length, kCols, 1);
      GuardedMatrix y(2 * p.pooled(), kCols);
      std::uint64_t pairs = 0;
      const Work work = heard([&] { pool_rows(p, x.view(), y.view()); });
      for (std::size_t row = 0; row < 2 * p.pooled(); ++row) {
        const auto& w = all[row % all.size()];
        const std::size_t before = row / all.size() * p.length;
        pairs += w.size() - 1;
        for (std::size_t c = 0; c < kCols; ++c) {
          const float a = x.at(before + w.front(), c);
          const float b = x.at(before + w.back(), c);
          const float want = p.maximum ? std::max(a, b) : w.size() == 1 ? a : 0.5F * (a + b);
          EXPECT_EQ(y.at(row, c), want);
        }
      }
      EXPECT_EQ(work.flops(), pairs * kCols * (p.maximum ? 1 : 2));
      EXPECT_TRUE(y.intact());
    });
  });
}

TEST(Pool, MaximaDoNotHideNaN) {
  for_each_target([] {
    const Pooling p{.batch = 1, .length = 4, .maximum = true};
    GuardedMatrix x = GuardedMatrix::random(4, 19, 1);
    for (std::size_t c = 0; c < 19; ++c) {
      x.at(0, c) = x.at(3, c) = std::numeric_limits<float>::quiet_NaN();
    }
    GuardedMatrix y(2, 19);
    pool_rows(p, x.view(), y.view());
    for (std::size_t c = 0; c < 19; ++c) {
      EXPECT_TRUE(std::isnan(y.at(0, c)) && std::isnan(y.at(1, c))) << c;
    }
  });
}

TEST(Pool, SendsBackWhatItTook) {
  for_each_target([] {
    for_each_pooling([](const Pooling& p) {
      const auto all = windows(p);
      constexpr std::size_t kCols = 5;
      const GuardedMatrix x = GuardedMatrix::random(2 * p.length, kCols, 1);
      const GuardedMatrix dy = GuardedMatrix::random(2 * p.pooled(), kCols, 2);
      const GuardedMatrix before = GuardedMatrix::random(2 * p.length, kCols, 3);
      GuardedMatrix dx = before;
      pool_rows_backward(p, x.view(), dy.view(), dx.view());
      GuardedMatrix want = before;
      for (std::size_t row = 0; row < 2 * p.pooled(); ++row) {
        const auto& w = all[row % all.size()];
        const std::size_t first = row / all.size() * p.length + w.front();
        const std::size_t last = row / all.size() * p.length + w.back();
        for (std::size_t c = 0; c < kCols; ++c) {
          if (p.maximum || w.size() == 1) {
            want.view().row_data(x.at(last, c) > x.at(first, c) ? last : first)[c] += dy.at(row, c);
          } else {
            want.view().row_data(first)[c] += 0.5F * dy.at(row, c);
            want.view().row_data(last)[c] += 0.5F * dy.at(row, c);
          }
        }
      }
      for (std::size_t i = 0; i < 2 * p.length; ++i) {
        for (std::size_t c = 0; c < kCols; ++c) EXPECT_NEAR(dx.at(i, c), want.at(i, c), 1e-6);
      }
      EXPECT_TRUE(dx.intact());
    });
  });
}

// A pair with padding in it is padding.
TEST(Pool, KnowsWhatIsReal) {
  for_each_pooling([](const Pooling& p) {
    for (std::size_t rows = 0; rows <= p.length; ++rows) {
      std::size_t want = 0;
      for (const auto& w : windows(p)) want += w.back() < rows ? 1 : 0;
      EXPECT_EQ(p.real(rows), want) << p.length << " " << rows << " " << p.cls << p.truncated;
    }
  });
}

TEST(Pool, TakesTheIdsOfTheFirst) {
  for_each_pooling([](const Pooling& p) {
    std::vector<std::int32_t> ids(2 * p.length), pooled(2 * p.pooled());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
    pool_ids(p, ids, pooled);
    const auto all = windows(p);
    for (std::size_t i = 0; i < pooled.size(); ++i) {
      EXPECT_EQ(pooled[i], i / all.size() * p.length + all[i % all.size()].front());
    }
  });
}

TEST(Pool, RepeatsRows) {
  for_each_target([] {
    for (const bool cls : {false, true}) {
      for (const std::size_t length : {1U, 7U, 9U, 12U}) {
        const Repetition r{.batch = 2, .length = length, .rows = 3, .times = 4, .cls = cls};
        constexpr std::size_t kCols = 19;
        const GuardedMatrix x = GuardedMatrix::random(6, kCols, 1);
        const GuardedMatrix skip = GuardedMatrix::random(2 * length, kCols, 2);
        const GuardedMatrix dy = GuardedMatrix::random(2 * length, kCols, 3);
        GuardedMatrix y(2 * length, kCols), dx(6, kCols);
        std::vector<std::size_t> order;  // of the repeated rows
        for (std::size_t i = 0; i < 3; ++i) order.insert(order.end(), cls && i == 0 ? 1 : 4, i);
        const Work forward = heard([&] { repeat_rows(r, x.view(), skip.view(), y.view()); });
        const Work backward = heard([&] { repeat_rows_backward(r, dy.view(), dx.view()); });
        std::vector<std::vector<float>> sums(6, std::vector<float>(kCols));
        std::vector<std::size_t> times(6);
        for (std::size_t row = 0; row < 2 * length; ++row) {
          const std::size_t i = row % length;
          const bool any = i < order.size();
          const std::size_t from = row / length * 3 + (any ? order[i] : 0);
          times[from] += any ? 1 : 0;
          for (std::size_t c = 0; c < kCols; ++c) {
            EXPECT_EQ(y.at(row, c), skip.at(row, c) + (any ? x.at(from, c) : 0.0F));
            if (any) sums[from][c] += dy.at(row, c);
          }
        }
        std::uint64_t repeated = 0, added = 0;
        for (std::size_t i = 0; i < 6; ++i) {
          repeated += times[i];
          added += times[i] > 0 ? times[i] - 1 : 0;
          for (std::size_t c = 0; c < kCols; ++c) EXPECT_EQ(dx.at(i, c), sums[i][c]);
        }
        EXPECT_EQ(forward.flops(), repeated * kCols);
        EXPECT_EQ(backward.flops(), added * kCols);
        EXPECT_TRUE(y.intact());
        EXPECT_TRUE(dx.intact());
      }
    }
  });
}

TEST(Pool, RefusesOtherShapes) {
  GuardedMatrix x(4, 2), y(3, 2);
  EXPECT_THROW(pool_rows({.length = 4}, x.view(), y.view()), Error);
}

}  // namespace pool_test
}  // namespace longspan
