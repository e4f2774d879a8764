#include "longspan/kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/gemm/gemm_tiles.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace gemm_test {

using testing::for_each_target;
using testing::for_each_thread_count;
using testing::GuardedMatrix;

struct Case {
  std::size_t m;
  std::size_t n;
  std::size_t k;
};

// Elements are in [−1, 1): the error of a sum of k products is at most about k·ε/2 for each of the
// k partial sums of size √k; k·ε bounds it with room for the order of summation.
void expect_product(const GuardedMatrix& a, const GuardedMatrix& b, const GuardedMatrix& before,
                    const GuardedMatrix& c, const GemmOptions& o, std::size_t k) {
  const double tolerance = 1.2e-7 * (static_cast<double>(k) + 2.0) * std::fabs(o.alpha) + 1.2e-7;
  for (std::size_t i = 0; i < c.view().rows; ++i) {
    for (std::size_t j = 0; j < c.view().cols; ++j) {
      double sum = 0.0;
      for (std::size_t l = 0; l < k; ++l) {
        sum += static_cast<double>(o.transpose_a ? a.at(l, i) : a.at(i, l)) *
               static_cast<double>(o.transpose_b ? b.at(j, l) : b.at(l, j));
      }
      const double want = o.alpha * sum + (o.add ? before.at(i, j) : 0.0);
      ASSERT_NEAR(c.at(i, j), want, tolerance) << "at " << i << ", " << j;
    }
  }
}

void check(const Case& s, const GemmOptions& o) {
  SCOPED_TRACE(::testing::Message() << s.m << "x" << s.n << "x" << s.k << " ta " << o.transpose_a
                                    << " tb " << o.transpose_b << " += " << o.add);
  const auto a =
      o.transpose_a ? GuardedMatrix::random(s.k, s.m, 1) : GuardedMatrix::random(s.m, s.k, 1);
  const auto b =
      o.transpose_b ? GuardedMatrix::random(s.n, s.k, 2) : GuardedMatrix::random(s.k, s.n, 2);
  const auto before = GuardedMatrix::random(s.m, s.n, 3);
  auto c = before;
  gemm(a.view(), b.view(), c.view(), o);
  EXPECT_TRUE(c.intact());
  expect_product(a, b, before, c, o, s.k);
}

TEST(Gemm, EqualsTheSumOfProductsForEveryTransposition) {
  for_each_target([] {
    for (const Case& s : {Case{1, 1, 1},
                          {1, 17, 5},
                          {7, 1, 13},
                          {17, 9, 33},
                          {61, 67, 31},
                          {5, 3, 1000},
                          {6, 12, 300},
                          {13, 64, 257},
                          {9, 300, 20},
                          {130, 150, 140},
                          {50, 70, 2101},  // several slabs of B
                          {192, 20, 1100},
                          {12, 580, 1800}}) {  // and several blocks of each
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
          check(s, {.transpose_a = ta, .transpose_b = tb});
          check(s, {.transpose_a = ta, .transpose_b = tb, .add = true, .alpha = -0.5F});
        }
      }
    }
  });
}

TEST(Gemm, RowsOfATransposedLeftSideMayBeFarApart) {
  constexpr std::size_t kDepth = 260;
  for_each_target([] {
    // In the same sets of the cache, and used by enough columns to be copied or not.
    for (const auto& [stride, n] : {std::pair{1024U, 20U}, {304U, 300U}, {304U, 20U}}) {
      for (const std::size_t m : {6U, 8U, 13U, 97U, 200U}) {
        const std::size_t width = stride - 3;
        const auto wide = GuardedMatrix::random(kDepth, width, 1);
        ASSERT_EQ(wide.view().stride, stride);
        const auto b = GuardedMatrix::random(kDepth, n, 2);
        GuardedMatrix c(m, n);
        gemm(wide.view().slice_cols(width - m, m), b.view(), c.view(), {.transpose_a = true});
        EXPECT_TRUE(c.intact());
        for (std::size_t i = 0; i < m; ++i) {
          for (std::size_t j = 0; j < n; ++j) {
            double want = 0.0;
            for (std::size_t l = 0; l < kDepth; ++l) {
              want += double{wide.at(l, width - m + i)} * b.at(l, j);
            }
            ASSERT_NEAR(c.at(i, j), want, 1.2e-7 * static_cast<double>(kDepth))
                << m << "x" << n << ": " << i << ", " << j;
          }
        }
      }
    }
  });
}

TEST(Gemm, EmptySidesDoNothingAndAnEmptySumIsZero) {
  const auto before = GuardedMatrix::random(3, 5, 3);
  auto c = before;
  const GuardedMatrix a(3, 0);
  const GuardedMatrix b(0, 5);
  gemm(a.view(), b.view(), c.view(), {.add = true});
  EXPECT_EQ(c, before);
  gemm(a.view(), b.view(), c.view());
  EXPECT_EQ(c, GuardedMatrix(3, 5));
  GuardedMatrix no_rows(0, 5);
  gemm(ConstMatrix(a.view().data, 0, 4), ConstMatrix(before.view().data, 4, 5), no_rows.view());
}

TEST(Gemm, BitsDoNotDependOnThreads) {
  for (const Case& s : {Case{5, 6, 7},
                        {40, 40, 40},
                        {768, 96, 128},
                        {128, 512, 768},
                        {129, 131, 700},
                        {1, 2048, 1100},
                        {2048, 1, 1100},
                        {64, 64, 9000},
                        {384, 384, 300}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const auto a = ta ? GuardedMatrix::random(s.k, s.m, 1) : GuardedMatrix::random(s.m, s.k, 1);
        const auto b = tb ? GuardedMatrix::random(s.n, s.k, 2) : GuardedMatrix::random(s.k, s.n, 2);
        std::optional<GuardedMatrix> first;
        std::optional<GuardedMatrix> first_serial;
        for_each_thread_count([&] {
          GuardedMatrix c(s.m, s.n);
          gemm(a.view(), b.view(), c.view(), {.transpose_a = ta, .transpose_b = tb});
          if (!first) first = c;
          EXPECT_EQ(c, *first) << s.m << "x" << s.n << "x" << s.k << " " << ta << tb;
          gemm_serial(a.view(), b.view(), c.view(), {.transpose_a = ta, .transpose_b = tb});
          if (!first_serial) first_serial = c;
          EXPECT_EQ(c, *first_serial) << s.m << "x" << s.n << "x" << s.k << " " << ta << tb;
        });
      }
    }
  }
}

TEST(Gemm, TheSameInsideAParallelRegion) {
  const auto a = GuardedMatrix::random(300, 200, 1);
  const auto b = GuardedMatrix::random(200, 100, 2);
  GuardedMatrix outside(300, 100);
  gemm(a.view(), b.view(), outside.view());
  std::vector<GuardedMatrix> inside(4, GuardedMatrix(300, 100));
  parallel_for(inside.size(),
               [&](std::size_t i, std::size_t) { gemm(a.view(), b.view(), inside[i].view()); });
  for (const auto& c : inside) EXPECT_EQ(c, outside);
}

TEST(Gemm, SerialLeavesTheNumberOfThreadsAlone) {
  for_each_thread_count([&] {
    const int threads = thread_count();
    GuardedMatrix c(2, 2);
    gemm_serial(GuardedMatrix(2, 2).view(), GuardedMatrix(2, 2).view(), c.view());
    EXPECT_EQ(thread_count(), threads);
  });
}

TEST(Gemm, TilesCoverTheOutputOnce) {
  for (const Case& s : {Case{1, 1, 1},
                        {128, 128, 768},
                        {1537, 385, 2048},
                        {1, 50000, 768},
                        {50000, 3, 100},
                        {4096, 4096, 4096},
                        {0, 5, 3}}) {
    for (const bool columns_first : {false, true}) {
      const detail::GemmTiles tiles = detail::gemm_tiles(s.m, s.n, s.k, columns_first);
      std::vector<int> seen(s.m * s.n);
      for (std::size_t i = 0; i < tiles.count(); ++i) {
        const auto t = tiles[i];
        ASSERT_GT(t.rows * t.cols, 0U);
        for (std::size_t r = t.row; r < t.row + t.rows; ++r) {
          for (std::size_t c = t.col; c < t.col + t.cols; ++c) ++seen[r * s.n + c];
        }
      }
      EXPECT_TRUE(std::ranges::all_of(seen, [](int n) { return n == 1; })) << s.m << "x" << s.n;
    }
  }
  EXPECT_GE(detail::gemm_tiles(128, 128, 768).count(), 4U);  // a weight gradient feeds four cores
  EXPECT_EQ(detail::gemm_tiles(64, 64, 64).count(), 1U);
}

TEST(Gemm, MetersMultiplyAccumulates) {
  Meter meter;
  const Meter::Use use(meter);
  GuardedMatrix c(3, 5);
  gemm(GuardedMatrix(7, 3).view(), GuardedMatrix(7, 5).view(), c.view(),
       {.transpose_a = true, .alpha = 2.0F});
  gemm_serial(GuardedMatrix(3, 7).view(), GuardedMatrix(7, 5).view(), c.view());  // silent
  Work want;
  want.maccs = 3 * 5 * 7;
  want.bytes[static_cast<std::size_t>(Kind::kMatmul)] = 4 * (21 + 35 + 15);
  EXPECT_EQ(meter.total(Phase::kForward), want);
}

TEST(Gemm, RealRowsLeavePaddingUnread) {
  constexpr std::size_t kRows = 7;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::int32_t> lengths = {3, 0, 7};
  auto a = GuardedMatrix::random(3 * kRows, 4, 1);
  auto b = GuardedMatrix::random(3 * kRows, 20, 2);
  for (const bool add : {false, true}) {
    const auto before = GuardedMatrix::random(4, 20, 3);
    auto want = before;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      const auto real = static_cast<std::size_t>(lengths[s]);
      gemm(a.view().slice_rows(s * kRows, real), b.view().slice_rows(s * kRows, real), want.view(),
           {.transpose_a = true, .add = add || s > 0});
      for (std::size_t i = s * kRows + real; i < (s + 1) * kRows; ++i) {
        std::ranges::fill(a.view().row(i), kNan);
        std::ranges::fill(b.view().row(i), kNan);
      }
    }
    auto c = before;
    Meter meter;
    {
      const Meter::Use use(meter);
      gemm_real_rows(a.view(), b.view(), c.view(), lengths, {.add = add});
    }
    EXPECT_EQ(c, want);
    EXPECT_EQ(meter.total(Phase::kForward).maccs, 3 * kRows * 4 * 20);
  }
}

TEST(Gemm, SaysWhichShapesDoNotFit) {
  GuardedMatrix c(3, 5);
  try {
    gemm(GuardedMatrix(3, 7).view(), GuardedMatrix(6, 5).view(), c.view());
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "[gemm] A is 3x7, B is 6x5, C is 3x5; need m×k, k×n, m×n");
  }
}

}  // namespace gemm_test
}  // namespace longspan
