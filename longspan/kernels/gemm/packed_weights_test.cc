#include "longspan/kernels/gemm/packed_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace packed_weights_test {

using testing::for_each_target;
using testing::for_each_thread_count;
using testing::GuardedMatrix;

struct Shape {
  std::size_t n;
  std::size_t in;
  std::size_t out;
};
// Rows in one block of registers and in several, groups of columns that are whole and not, panels in
// one piece and in several.
constexpr Shape kShapes[] = {{1, 1, 1},    {1, 40, 17},     {3, 0, 5},      {7, 13, 9},
                             {0, 4, 5},    {4, 5, 0},       {6, 64, 64},    {13, 200, 128},
                             {29, 31, 33}, {130, 100, 257}, {200, 300, 96}, {1, 513, 192},
                             {20, 3, 5},   {9, 70, 2},      {70, 129, 79}};

struct Case {
  explicit Case(Shape s)
      : x(GuardedMatrix::random(s.n, s.in, 1)),
        w(s.out, s.in, /*guard=*/0),
        bias(GuardedMatrix::random(1, s.out, 3)) {
    const GuardedMatrix drawn = GuardedMatrix::random(s.out, s.in, 2);
    for (std::size_t i = 0; i < s.out; ++i) {
      for (std::size_t j = 0; j < s.in; ++j) w.at(i, j) = drawn.at(i, j);
    }
    packed.emplace(w);
    pack_weights(packed->view());
  }
  WeightMatrix weights() const { return {std::as_const(*packed).view(), /*is_packed=*/true}; }
  double at(std::size_t i, std::size_t j) const {
    double sum = bias.at(0, j);
    for (std::size_t l = 0; l < w.view().cols; ++l) sum += double{x.at(i, l)} * w.at(j, l);
    return sum;
  }
  double tolerance() const { return 1.2e-7 * (static_cast<double>(w.view().cols) + 2.0); }

  GuardedMatrix x;
  GuardedMatrix w;
  GuardedMatrix bias;
  std::optional<GuardedMatrix> packed;
};

TEST(PackedWeights, UnpackedAreAsBefore) {
  for_each_target([] {
    for (const Shape& s : kShapes) {
      Case c(s);
      unpack_weights(c.packed->view());
      EXPECT_EQ(*c.packed, c.w) << s.out << " × " << s.in;
    }
  });
}

TEST(PackedWeights, ShowTheirRows) {
  for_each_target([] {
    for (const Shape& s : kShapes) {
      const Case c(s);
      std::vector<float> row(s.in);
      for (std::size_t i = 0; i < s.out; ++i) {
        detail::copy_packed_row(c.weights().matrix, i, row.data());
        ASSERT_TRUE(std::ranges::equal(row, c.w.view().row(i))) << i;
      }
    }
  });
}

TEST(PackedWeights, GiveTheProduct) {
  for_each_target([] {
    for (const Shape& s : kShapes) {
      const Case c(s);
      GuardedMatrix y(s.n, s.out);
      linear_forward(c.x.view(), c.weights(), c.bias.view().data, y.view());
      EXPECT_TRUE(y.intact());
      for (std::size_t i = 0; i < s.n; ++i) {
        for (std::size_t j = 0; j < s.out; ++j) {
          ASSERT_NEAR(y.at(i, j), c.at(i, j), c.tolerance())
              << s.n << " × " << s.in << " × " << s.out << " at " << i << ", " << j;
        }
      }
    }
  });
}

TEST(PackedWeights, ActivationSeesProductAndBias) {
  const Case c({29, 31, 33});
  GuardedMatrix z(29, 33);
  GuardedMatrix h(29, 33);
  GuardedMatrix want(29, 33);
  linear_activation_forward(c.x.view(), c.weights(), c.bias.view().data, Activation::kGelu,
                            z.view(), h.view());
  activation_forward(Activation::kGelu, z.view(), want.view());
  EXPECT_EQ(h, want);
  EXPECT_NEAR(z.at(28, 32), c.at(28, 32), c.tolerance());
}

TEST(PackedWeights, BitsDependNeitherOnThreadsNorOnOtherRows) {
  const Case c({200, 300, 450});
  std::optional<GuardedMatrix> first;
  for_each_thread_count([&] {
    GuardedMatrix y(200, 450);
    linear_forward(c.x.view(), c.weights(), nullptr, y.view());
    if (!first) first = y;
    EXPECT_EQ(y, *first);
    for (const std::size_t rows : {1, 5, 8, 60}) {
      GuardedMatrix some(rows, 450);
      linear_forward(c.x.view().slice_rows(0, rows), c.weights(), nullptr, some.view());
      for (std::size_t j = 0; j < 450; ++j) {
        ASSERT_EQ(some.at(rows - 1, j), y.at(rows - 1, j)) << rows << ", " << j;
      }
    }
  });
}

TEST(PackedWeights, CountAsTheProductDoes) {
  const Case c({3, 4, 5});
  GuardedMatrix y(3, 5);
  const auto work_with = [&](WeightMatrix w) {
    Meter meter;
    const Meter::Use use(meter);
    linear_forward(c.x.view(), w, c.bias.view().data, y.view());
    return meter.total(Phase::kForward);
  };
  const Work packed = work_with(c.weights());
  EXPECT_EQ(packed.flops(), work_with(c.w.view()).flops());
  EXPECT_EQ(packed.maccs, 60U);
}

TEST(PackedWeights, MustLieSideBySide) {
  GuardedMatrix w(3, 4);
  try {
    pack_weights(w.view());
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "[gemm] weights of 4 columns, 7 apart; need them side by side");
  }
}

}  // namespace packed_weights_test
}  // namespace longspan
