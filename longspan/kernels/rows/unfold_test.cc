// Unfolding against its definition, folding as its transpose.
#include "longspan/kernels/rows/unfold.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "longspan/base/meter.h"
#include "longspan/base/random.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace unfold_test {

using testing::GuardedMatrix;

std::vector<Window> windows() {
  return {{.batch = 2,
           .channels = 3,
           .height = 6,
           .width = 9,
           .tap_rows = 3,
           .tap_cols = 3,
           .stride = 3},
          {.batch = 1,
           .channels = 1,
           .height = 5,
           .width = 4,
           .tap_rows = 2,
           .tap_cols = 2,
           .stride = 2},
          {.batch = 2, .channels = 4, .width = 7, .tap_cols = 3, .pad_cols = 1},
          {.batch = 3, .channels = 2, .width = 8, .tap_cols = 3, .stride = 2, .pad_cols = 1},
          {.batch = 2, .channels = 2, .width = 1, .tap_cols = 3, .stride = 2, .pad_cols = 1},
          {.batch = 1,
           .channels = 2,
           .height = 4,
           .width = 5,
           .tap_rows = 3,
           .tap_cols = 2,
           .stride = 1,
           .pad_rows = 2,
           .pad_cols = 1},
          {.batch = 1,
           .channels = 3,
           .height = 3,
           .width = 11,
           .tap_rows = 1,
           .tap_cols = 2,
           .stride = 4}};
}

// Calls act(row, column, row of positions, channel) for every element that is inside.
template <class Act>
void for_each_inside(const Window& w, const Act& act) {
  for (std::size_t row = 0; row < w.rows(); ++row) {
    const auto j = static_cast<std::ptrdiff_t>(row % w.out_width());
    const auto i = static_cast<std::ptrdiff_t>(row / w.out_width() % w.out_height());
    const std::size_t b = row / w.out_width() / w.out_height();
    for (std::size_t col = 0; col < w.cols(); ++col) {
      const auto v = static_cast<std::ptrdiff_t>(col % w.tap_cols);
      const auto u = static_cast<std::ptrdiff_t>(col / w.tap_cols % w.tap_rows);
      const auto stride = static_cast<std::ptrdiff_t>(w.stride);
      const std::ptrdiff_t y = i * stride + u - static_cast<std::ptrdiff_t>(w.pad_rows);
      const std::ptrdiff_t z = j * stride + v - static_cast<std::ptrdiff_t>(w.pad_cols);
      if (y < 0 || z < 0 || y >= static_cast<std::ptrdiff_t>(w.height) ||
          z >= static_cast<std::ptrdiff_t>(w.width)) {
        continue;
      }
      const std::size_t position =
          (b * w.height + static_cast<std::size_t>(y)) * w.width + static_cast<std::size_t>(z);
      act(row, col, position, col / w.tap_cols / w.tap_rows);
    }
  }
}

TEST(Unfold, IsTheDefinition) {
  for (const Window& w : windows()) {
    const auto x = GuardedMatrix::random(w.positions(), w.channels, 1);
    std::vector<float> planes(x.view().size());
    for (std::size_t p = 0; p < w.positions(); ++p) {
      for (std::size_t c = 0; c < w.channels; ++c) {
        const std::size_t plane = w.height * w.width;
        planes[(p / plane * w.channels + c) * plane + p % plane] = x.at(p, c);
      }
    }
    std::vector<float> want(w.rows() * w.cols(), 0.0F);
    for_each_inside(w, [&](std::size_t row, std::size_t col, std::size_t p, std::size_t c) {
      want[row * w.cols() + col] = x.at(p, c);
    });
    testing::for_each_thread_count([&] {
      GuardedMatrix of_rows(w.rows(), w.cols(), 3);
      GuardedMatrix of_planes(w.rows(), w.cols());
      unfold_rows(w, x.view(), of_rows.view());
      unfold_planes(w, planes.data(), of_planes.view());
      EXPECT_TRUE(of_rows.intact());
      EXPECT_TRUE(of_planes.intact());
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_EQ(of_rows.at(i / w.cols(), i % w.cols()), want[i]) << i;
        ASSERT_EQ(of_planes.at(i / w.cols(), i % w.cols()), want[i]) << i;
      }
    });
  }
}

TEST(Unfold, FoldingIsItsTranspose) {
  for (const Window& w : windows()) {
    const auto columns = GuardedMatrix::random(w.rows(), w.cols(), 2);
    std::vector<double> want(w.positions() * w.channels, 0.0);
    std::uint64_t inside = 0;
    for_each_inside(w, [&](std::size_t row, std::size_t col, std::size_t p, std::size_t c) {
      want[p * w.channels + c] += static_cast<double>(columns.at(row, col));
      ++inside;
    });
    EXPECT_EQ(w.inside(), inside);
    std::optional<GuardedMatrix> first;
    testing::for_each_thread_count([&] {
      GuardedMatrix dx(w.positions(), w.channels, 2);
      Meter meter;
      {
        const Meter::Use use(meter);
        fold_rows(w, columns.view(), dx.view());
      }
      EXPECT_EQ(meter.total(Phase::kForward).flops(), inside);
      EXPECT_TRUE(dx.intact());
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(dx.at(i / w.channels, i % w.channels), want[i], 1e-6) << i;
      }
      if (!first) first = dx;
      EXPECT_EQ(dx, *first);
    });
  }
}

TEST(Unfold, SaysWhatDoesNotFit) {
  const Window w = windows()[2];
  GuardedMatrix columns(w.rows(), w.cols() + 1);
  GuardedMatrix x(w.positions(), w.channels);
  EXPECT_EQ(testing::message_of([&] { unfold_rows(w, x.view(), columns.view()); }),
            "[unfold] columns of 14x13; need 14x12");
  GuardedMatrix right(w.rows(), w.cols());
  EXPECT_EQ(testing::message_of([&] { fold_rows(w, right.view(), columns.view()); }),
            "[unfold] 14 rows of 13 channels; need 14 of 4");
}

}  // namespace unfold_test
}  // namespace longspan
