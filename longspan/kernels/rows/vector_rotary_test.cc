#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace vector_rotary_test {

using testing::for_each_target;
using testing::GuardedMatrix;

struct Tables {
  Tables(const Rotary& rotary, std::size_t positions, std::size_t d)
      : c(positions, d / 2, 0), s(positions, d / 2, 0) {
    rotary_table(rotary, positions, d, c.view().data, s.view().data);
  }
  GuardedMatrix c;
  GuardedMatrix s;
};

// x is [batch·n, heads·d]; returns the definition in double.
double rotated(const Rotary& rotary, const GuardedMatrix& x, std::size_t row, std::size_t column,
               std::size_t position, std::size_t d) {
  const std::size_t head = column / d * d;
  const std::size_t j = column % d;
  const std::size_t pair = rotary.interleaved ? j / 2 : j % (d / 2);
  const bool second = rotary.interleaved ? j % 2 == 1 : j >= d / 2;
  const double a = x.at(row, head + (rotary.interleaved ? 2 * pair : pair));
  const double b = x.at(row, head + (rotary.interleaved ? 2 * pair + 1 : pair + d / 2));
  const double angle =
      static_cast<double>(position) *
      std::pow(double{rotary.base}, -2.0 * static_cast<double>(pair) / static_cast<double>(d));
  return second ? a * std::sin(angle) + b * std::cos(angle)
                : a * std::cos(angle) - b * std::sin(angle);
}

TEST(Rotary, RotatesEveryPairByItsAngleAndBack) {
  for_each_target([] {
    for (const bool interleaved : {true, false}) {
      for (const std::size_t d : {2, 6, 16, 18, 34, 64}) {
        const Rotary rotary{.base = 1000.0F, .interleaved = interleaved};
        const std::size_t batch = 2, heads = 3, n = 5, first = 4;
        const Tables tables(rotary, first + n, d);
        const auto x = GuardedMatrix::random(batch * n, heads * d, 1);
        auto y = x;
        const Heads view = Heads::from_columns(y.view(), batch, heads);
        rotate(rotary, tables.c.view(), tables.s.view(), first, view, false);
        EXPECT_TRUE(y.intact());
        for (std::size_t i = 0; i < batch * n; ++i) {
          for (std::size_t j = 0; j < heads * d; ++j) {
            ASSERT_NEAR(y.at(i, j), rotated(rotary, x, i, j, first + i % n, d), 2.4e-7)
                << d << " at " << i << ", " << j;
          }
        }
        rotate(rotary, tables.c.view(), tables.s.view(), first, view, true);
        for (std::size_t i = 0; i < batch * n; ++i) {
          for (std::size_t j = 0; j < heads * d; ++j) {
            ASSERT_NEAR(y.at(i, j), x.at(i, j), 4.8e-7);
          }
        }
      }
    }
  });
}

TEST(Rotary, ChecksItsTables) {
  const Rotary rotary;
  Tables tables(rotary, 4, 8);
  GuardedMatrix x(5, 8, 0);
  EXPECT_THROW(rotate(rotary, tables.c.view(), tables.s.view(), 0,
                      Heads::from_columns(x.view(), 1, 1), false),
               Error);
  EXPECT_THROW(rotate(rotary, tables.c.view(), tables.s.view(), 0,
                      Heads::from_columns(x.view(), 1, 2).first(4), false),
               Error);
  EXPECT_THROW(rotary_table(rotary, 1, 3, nullptr, nullptr), Error);
}

TEST(Rotary, MetersThreePerElement) {
  const Rotary rotary;
  Tables tables(rotary, 4, 8);
  GuardedMatrix x(8, 16, 0);
  Meter meter;
  const Meter::Use use(meter);
  rotate(rotary, tables.c.view(), tables.s.view(), 0, Heads::from_columns(x.view(), 2, 2), false);
  EXPECT_EQ(meter.total(Phase::kForward)[Kind::kRotary], 3U * 8 * 16);
  EXPECT_EQ(meter.total(Phase::kForward).total_bytes(), 8U * 8 * 16 + 4U * 4 * 8);
}

}  // namespace vector_rotary_test
}  // namespace longspan
