#include "longspan/kernels/rows/pairs.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/base/parallel.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace pairs_test {

using testing::for_each_target;
using testing::GuardedMatrix;

constexpr std::size_t kWidths[] = {1, 5, 16, 17, 67};

Work heard(const std::function<void()>& run) {
  Meter meter;
  const Meter::Use use(meter);
  const Place::Scope scope("pairs", Phase::kForward);
  run();
  return meter.at("pairs", Phase::kForward);
}

TEST(Pairs, AreBothTheirProductAndTheirDifference) {
  for_each_target([] {
    for (const std::size_t d : kWidths) {
      const GuardedMatrix x = GuardedMatrix::random(6, d, 1);
      GuardedMatrix y(3, 4 * d);
      const Work work = heard([&] { pair_rows(x.view(), y.view()); });
      for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < d; ++j) {
          const float a = x.at(2 * i, j);
          const float b = x.at(2 * i + 1, j);
          EXPECT_EQ(y.at(i, j), a);
          EXPECT_EQ(y.at(i, d + j), b);
          EXPECT_EQ(y.at(i, 2 * d + j), a * b);
          EXPECT_EQ(y.at(i, 3 * d + j), a - b);
        }
      }
      EXPECT_EQ(work.flops(), 2 * 3 * d);
      EXPECT_TRUE(y.intact());
    }
  });
}

TEST(Pairs, SendBackWhatTheyTook) {
  for_each_target([] {
    for (const std::size_t d : kWidths) {
      const GuardedMatrix x = GuardedMatrix::random(6, d, 1);
      const GuardedMatrix dy = GuardedMatrix::random(3, 4 * d, 2);
      GuardedMatrix dx = GuardedMatrix::random(6, d, 3);  // is written over
      const Work work = heard([&] { pair_rows_backward(x.view(), dy.view(), dx.view()); });
      for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < d; ++j) {
          const double product = dy.at(i, 2 * d + j);
          const double difference = dy.at(i, 3 * d + j);
          EXPECT_NEAR(dx.at(2 * i, j), dy.at(i, j) + product * x.at(2 * i + 1, j) + difference,
                      1e-6);
          EXPECT_NEAR(dx.at(2 * i + 1, j), dy.at(i, d + j) + product * x.at(2 * i, j) - difference,
                      1e-6);
        }
      }
      EXPECT_EQ(work.flops(), 6 * 3 * d);
      EXPECT_TRUE(dx.intact());
    }
  });
}

// More rows than a piece has, on one thread and on three: the same bits.
TEST(Pairs, DoNotDependOnThreads) {
  const GuardedMatrix x = GuardedMatrix::random(2002, 33, 1);
  const GuardedMatrix dy = GuardedMatrix::random(1001, 4 * 33, 2);
  const int usual = thread_count();
  const auto both = [&](int threads) {
    set_thread_count(threads);
    std::pair<GuardedMatrix, GuardedMatrix> result{GuardedMatrix(1001, 4 * 33),
                                                   GuardedMatrix(2002, 33)};
    pair_rows(x.view(), result.first.view());
    pair_rows_backward(x.view(), dy.view(), result.second.view());
    return result;
  };
  const auto alone = both(1);
  const auto together = both(3);
  set_thread_count(usual);
  EXPECT_TRUE(alone.first == together.first);
  EXPECT_TRUE(alone.second == together.second);
}

TEST(Pairs, RefuseOtherShapes) {
  GuardedMatrix x(3, 2), y(1, 8), dx(2, 3);
  EXPECT_EQ(testing::message_of([&] { pair_rows(x.view(), y.view()); }),
            "[pair_rows] 3×2 and 1×8; need two rows for each of four times their width");
  GuardedMatrix two(2, 2);
  EXPECT_THROW(pair_rows_backward(two.view(), y.view(), dx.view()), Error);
}

}  // namespace pairs_test
}  // namespace longspan
