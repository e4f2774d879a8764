#include "longspan/kernels/rows/gather.h"

#include <gtest/gtest.h>

#include <vector>

#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace gather_test {

using testing::for_each_target;
using testing::GuardedMatrix;

const std::vector<std::int32_t> kRows = {4, 0, 4, 9, 1, 2, 3, 5, 6, 8, 7, 4};

TEST(Gather, SumsRowsInOrder) {
  for_each_target([] {
    for (const std::size_t cols : {1U, 7U, 16U, 67U}) {
      const GuardedMatrix x = GuardedMatrix::random(10, cols, 1);
      GuardedMatrix sum(1, cols);
      sum_rows(x.view(), kRows, 0.5F, sum.view().row(0));
      for (std::size_t c = 0; c < cols; ++c) {
        float want = 0.0F;
        for (const std::int32_t i : kRows) want += x.at(static_cast<std::size_t>(i), c);
        EXPECT_EQ(sum.at(0, c), 0.5F * want);
      }
      EXPECT_TRUE(sum.intact());
      sum_rows(x.view(), {}, 1.0F, sum.view().row(0));
      EXPECT_EQ(sum.at(0, cols - 1), 0.0F);
    }
  });
}

TEST(Gather, SpreadsARow) {
  for_each_target([] {
    for (const std::size_t cols : {1U, 19U}) {
      for (const bool add : {false, true}) {
        const GuardedMatrix row = GuardedMatrix::random(1, cols, 2);
        const GuardedMatrix before = GuardedMatrix::random(10, cols, 3);
        GuardedMatrix y = before;
        const std::vector<std::int32_t> rows = {9, 2};
        spread_row(row.view().row(0), 3.0F, add, rows, y.view());
        for (std::size_t i = 0; i < 10; ++i) {
          for (std::size_t c = 0; c < cols; ++c) {
            const float more = 3.0F * row.at(0, c);
            const float want = i != 9 && i != 2 ? before.at(i, c)
                               : add            ? before.at(i, c) + more
                                                : more;
            EXPECT_EQ(y.at(i, c), want);
          }
        }
        EXPECT_TRUE(y.intact());
      }
    }
  });
}

TEST(Gather, ScattersRowsThatRepeat) {
  for_each_target([] {
    for (const std::size_t cols : {1U, 16U, 21U}) {
      const GuardedMatrix x = GuardedMatrix::random(kRows.size(), cols, 4);
      GuardedMatrix y = GuardedMatrix::random(10, cols, 5);
      GuardedMatrix want = y;
      scatter_rows(x.view(), kRows, y.view());
      for (std::size_t i = 0; i < kRows.size(); ++i) {
        for (std::size_t c = 0; c < cols; ++c) {
          want.at(static_cast<std::size_t>(kRows[i]), c) += x.at(i, c);
        }
      }
      EXPECT_TRUE(y == want);
    }
  });
}

}  // namespace gather_test
}  // namespace longspan
