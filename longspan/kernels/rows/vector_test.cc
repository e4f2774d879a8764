#include "longspan/kernels/rows/vector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace vector_test {

using testing::for_each_target;
using testing::for_each_thread_count;
using testing::GuardedMatrix;

constexpr float kEpsilon = std::numeric_limits<float>::epsilon();

// Calls check(rows, cols, guard): gaps between rows or none, small and cut into pieces.
template <class Check>
void for_each_shape(Check check) {
  for (const std::size_t guard : {0, 3}) {
    for (const std::size_t cols : {0, 1, 7, 8, 9, 33, 67}) check(std::size_t{5}, cols, guard);
    check(std::size_t{1}, std::size_t{40001}, guard);
    check(std::size_t{701}, std::size_t{61}, guard);
    check(std::size_t{0}, std::size_t{4}, guard);
  }
}

GuardedMatrix random(std::size_t rows, std::size_t cols, std::size_t guard, RandomKey key) {
  GuardedMatrix m(rows, cols, guard);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) {
      m.at(i, j) = 2.0F * random_uniform(key, i * cols + j) - 1.0F;
    }
  }
  return m;
}

template <class Want>
void expect_each(const GuardedMatrix& y, Want want, float tolerance = 0.0F) {
  ASSERT_TRUE(y.intact());
  for (std::size_t i = 0; i < y.view().rows; ++i) {
    for (std::size_t j = 0; j < y.view().cols; ++j) {
      ASSERT_NEAR(y.at(i, j), want(i, j), tolerance) << i << ", " << j;
    }
  }
}

TEST(Vector, ElementwiseFunctionsDoWhatTheySay) {
  for_each_target([] {
    for_each_shape([](std::size_t rows, std::size_t cols, std::size_t guard) {
      const auto a = random(rows, cols, guard, 1);
      const auto b = random(rows, cols, guard, 2);
      GuardedMatrix y(rows, cols, guard);
      add(a.view(), b.view(), y.view());
      expect_each(y, [&](auto i, auto j) { return a.at(i, j) + b.at(i, j); });
      subtract(a.view(), b.view(), y.view());
      expect_each(y, [&](auto i, auto j) { return a.at(i, j) - b.at(i, j); });
      fill(y.view(), 1.5F);
      expect_each(y, [](auto, auto) { return 1.5F; });
      copy(a.view(), y.view());
      EXPECT_EQ(y, a);
      scale(-3.0F, y.view());
      expect_each(y, [&](auto i, auto j) { return -3.0F * a.at(i, j); });
      y = b;
      axpy(0.3F, a.view(), y.view());  // one rounding or two
      expect_each(
          y, [&](auto i, auto j) { return b.at(i, j) + 0.3F * a.at(i, j); }, 2 * kEpsilon);
      y = b;
      add(y.view(), a.view(), y.view());  // in place
      expect_each(y, [&](auto i, auto j) { return a.at(i, j) + b.at(i, j); });
    });
  });
}

TEST(Vector, ColumnSumsAddToWhatIsThere) {
  for_each_target([] {
    for_each_shape([](std::size_t rows, std::size_t cols, std::size_t guard) {
      const auto x = random(rows, cols, guard, 1);
      const auto before = random(1, cols, 3, 2);
      auto sum = before;
      add_column_sums(x.view(), sum.view().data);
      const float tolerance = kEpsilon * static_cast<float>(rows / 2 + 2);
      expect_each(
          sum,
          [&](auto, auto j) {
            double want = before.at(0, j);
            for (std::size_t i = 0; i < rows; ++i) want += x.at(i, j);
            return want;
          },
          tolerance);
    });
  });
}

TEST(Vector, SumOfSquaresIsDouble) {
  for_each_target([] {
    for (const std::size_t n : {0U, 1U, 7U, 17U, 16384U, 16385U, 6000001U}) {
      const auto x = random(1, n, 2, 3);
      double want = 0.0;
      for (std::size_t j = 0; j < n; ++j) want += double{x.at(0, j)} * double{x.at(0, j)};
      EXPECT_NEAR(sum_of_squares({x.view().data, n}), want, 1e-11 * want) << n;
    }
    const std::vector<float> large(9, 1e30F);  // whose squares are no floats
    EXPECT_NEAR(sum_of_squares(large), 9e60, 1e54);
  });
}

TEST(Vector, AllFiniteFindsTheOneThatIsNot) {
  for_each_target([] {
    for (const std::size_t n : {1U, 8U, 13U, 50000U}) {
      std::vector<float> x(n, std::numeric_limits<float>::max());
      EXPECT_TRUE(all_finite(x));
      for (const float bad :
           {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
            std::numeric_limits<float>::quiet_NaN()}) {
        for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
          x[at] = bad;
          EXPECT_FALSE(all_finite(x)) << n << " at " << at;
          x[at] = 0.0F;
        }
      }
    }
    EXPECT_TRUE(all_finite({}));
  });
}

TEST(Vector, DropoutIsThePhiloxMask) {
  for_each_target([] {
    const Dropout drop{.rate = 0.3F, .key = 0x123456789ABCDEFULL};
    for_each_shape([&](std::size_t rows, std::size_t cols, std::size_t guard) {
      const auto x = random(rows, cols, guard, 4);
      GuardedMatrix y(rows, cols, guard);
      dropout(drop, x.view(), y.view());
      expect_each(y, [&](auto i, auto j) {
        return x.at(i, j) *
               drop.factor(0, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j));
      });
      auto z = x;
      dropout(drop, z.view(), z.view());
      EXPECT_EQ(y, z);
      dropout({}, x.view(), y.view());
      EXPECT_EQ(y, x);
    });
  });
}

TEST(Vector, DropoutRejectsRatesThatKeepNothing) {
  GuardedMatrix x(1, 1);
  EXPECT_THROW(dropout({.rate = 1.0F}, x.view(), x.view()), Error);
}

TEST(Vector, RowsGoToAndFroByIndex) {
  for_each_target([] {
    for (const std::size_t cols : {1, 7, 8, 65, 130}) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{9}, std::size_t{900}}) {
        const auto table = GuardedMatrix::random(11, cols, 1);
        std::vector<std::int32_t> ids(count);
        for (std::size_t i = 0; i < count; ++i) {
          ids[i] = static_cast<std::int32_t>(random_below(2, i, 11));
        }
        GuardedMatrix y(count, cols);
        gather_rows(table.view(), ids, y.view());
        expect_each(y, [&](auto i, auto j) { return table.at(ids[i], j); });
        // The order of additions is that of the rows, so even the rounding is prescribed.
        auto want = table;
        for (std::size_t i = 0; i < count; ++i) {
          for (std::size_t j = 0; j < cols; ++j) want.at(ids[i], j) += y.at(i, j);
        }
        auto got = table;
        scatter_add_rows(y.view(), ids, got.view());
        EXPECT_EQ(got, want);
      }
    }
  });
}

TEST(Vector, BitsDoNotDependOnThreads) {
  const auto x = random(1201, 193, 3, 1);
  std::optional<GuardedMatrix> sums;
  std::optional<double> squares;
  for_each_thread_count([&] {
    GuardedMatrix sum(1, 193);
    add_column_sums(x.view(), sum.view().data);
    if (!sums) sums = sum;
    EXPECT_EQ(sum, *sums);
    const auto flat = random(1, 300007, 0, 2);
    const double s = sum_of_squares({flat.view().data, 300007});
    if (!squares) squares = s;
    EXPECT_EQ(s, *squares);
  });
}

TEST(Vector, MetersWhatTheHeaderSays) {
  Meter meter;
  const Meter::Use use(meter);
  auto x = GuardedMatrix::random(3, 5, 1);
  auto y = x;
  std::vector<float> sum(5);
  const std::vector<std::int32_t> ids = {0, 2, 2};
  const auto expect = [&](Kind kind, std::uint64_t flops, std::uint64_t bytes, auto&& call) {
    meter.clear();
    call();
    Work want;
    want[kind] = flops;
    want.bytes[static_cast<std::size_t>(kind)] = bytes;
    EXPECT_EQ(meter.total(Phase::kForward), want) << name_of(kind) << " " << flops;
  };
  expect(Kind::kAdd, 15, 180, [&] { add(x.view(), x.view(), y.view()); });
  expect(Kind::kAdd, 15, 180, [&] { subtract(x.view(), x.view(), y.view()); });
  expect(Kind::kAdd, 15, 180, [&] { axpy(1.0F, x.view(), y.view()); });
  expect(Kind::kAdd, 30, 180, [&] { axpy(2.0F, x.view(), y.view()); });
  expect(Kind::kAdd, 15, 120, [&] { scale(2.0F, y.view()); });
  expect(Kind::kAdd, 15, 100, [&] { add_column_sums(x.view(), sum.data()); });
  expect(Kind::kOptimizer, 10, 20, [&] { sum_of_squares(sum); });
  expect(Kind::kDropout, 15, 120, [&] { dropout({.rate = 0.5F}, x.view(), y.view()); });
  expect(Kind::kGather, 0, 132, [&] { gather_rows(x.view(), ids, y.view()); });
  expect(Kind::kGather, 15, 192, [&] { scatter_add_rows(y.view(), ids, x.view()); });
  expect(Kind::kAdd, 0, 0, [&] {
    fill(y.view(), 0.0F);
    copy(x.view(), y.view());
    all_finite(sum);
    dropout({}, x.view(), y.view());
  });
}

TEST(Vector, SaysWhichShapesDiffer) {
  GuardedMatrix a(2, 3);
  GuardedMatrix b(3, 2);
  try {
    add(a.view(), b.view(), a.view());
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "[add] 2x3 and 3x2; need equal shapes");
  }
  EXPECT_THROW(gather_rows(a.view(), std::vector<std::int32_t>{0}, b.view()), Error);
}

}  // namespace vector_test
}  // namespace longspan
