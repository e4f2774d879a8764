#include "longspan/kernels/rows/convolution.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace convolution_test {

using testing::for_each_target;
using testing::GuardedMatrix;

constexpr std::size_t kBatch = 3;
constexpr std::size_t kCols = 37;

struct Case {
  std::size_t taps;
  std::size_t length;
  std::vector<std::int32_t> lengths;
  bool bias;
  bool before;

  std::size_t real(std::size_t b) const {
    return lengths.empty() ? length : static_cast<std::size_t>(lengths[b]);
  }
};

std::vector<Case> cases() {
  return {{1, 5, {}, true, false},
          {3, 5, {}, false, false},
          {4, 9, {9, 2, 0}, true, false},
          {4, 2, {}, true, true},
          {5, 11, {}, false, true},
          {16, 7, {3, 7, 1}, true, false},
          {4, 700, {700, 3, 650}, true, false}};
}

struct Operands {
  explicit Operands(const Case& c)
      : x(GuardedMatrix::random(kBatch * c.length, kCols, 1)),
        taps(GuardedMatrix::random(c.taps, kCols, 2)),
        bias(GuardedMatrix::random(1, kCols, 3)),
        before(GuardedMatrix::random(kBatch * (c.taps - 1), kCols, 4)),
        dy(GuardedMatrix::random(kBatch * c.length, kCols, 5)) {}

  Convolution convolution(const Case& c) const {
    Convolution v{.sequences = {c.length, c.lengths}, .taps = taps.view()};
    if (c.bias) v.bias = bias.view().data;
    if (c.before) v.before = before.view();
    return v;
  }
  // x_{t−ago} of sequence b.
  double input(const Case& c, std::size_t b, std::size_t t, std::size_t ago,
               std::size_t col) const {
    if (ago <= t) return x.at(b * c.length + t - ago, col);
    const std::size_t kept = c.taps - 1;
    return c.before ? before.at(b * kept + kept + t - ago, col) : 0.0;
  }

  GuardedMatrix x, taps, bias, before, dy;
};

Work heard(const std::function<void()>& run) {
  Meter meter;
  const Meter::Use use(meter);
  const Place::Scope scope("conv", Phase::kForward);
  run();
  return meter.at("conv", Phase::kForward);
}

std::uint64_t real_elements(const Case& c) {
  std::uint64_t rows = 0;
  for (std::size_t b = 0; b < kBatch; ++b) rows += c.real(b);
  return rows * kCols;
}

TEST(Convolution, IsItsDefinition) {
  for_each_target([] {
    for (const Case& c : cases()) {
      const Operands o(c);
      GuardedMatrix y(kBatch * c.length, kCols);
      const Work work = heard([&] { convolve(o.convolution(c), o.x.view(), y.view()); });
      EXPECT_EQ(work.maccs, c.taps * real_elements(c));
      EXPECT_EQ(work.other_flops(), c.bias ? real_elements(c) : 0);
      for (std::size_t row = 0; row < kBatch * c.length; ++row) {
        const std::size_t b = row / c.length;
        const std::size_t t = row % c.length;
        for (std::size_t col = 0; col < kCols; ++col) {
          double want = c.bias ? o.bias.at(0, col) : 0.0;
          for (std::size_t ago = 0; ago < c.taps; ++ago) {
            want += o.taps.at(c.taps - 1 - ago, col) * o.input(c, b, t, ago, col);
          }
          if (t >= c.real(b)) want = 0.0;
          ASSERT_NEAR(y.at(row, col), want, 1e-5) << c.taps << " " << row << " " << col;
        }
      }
    }
  });
}

// ⟨dy, conv(x)⟩ is linear in x and in the taps: its gradients are what it is against unit vectors.
TEST(Convolution, GradientsAreThoseOfItsDefinition) {
  for_each_target([] {
    for (const Case& c : cases()) {
      if (c.before) continue;  // nothing is trained while decoding
      const Operands o(c);
      GuardedMatrix dx(kBatch * c.length, kCols);
      GuardedMatrix dtaps(c.taps, kCols);
      GuardedMatrix dbias(1, kCols);
      const Convolution v = o.convolution(c);
      const Work back = heard([&] { convolve_backward(v, o.dy.view(), dx.view()); });
      EXPECT_EQ(back, heard([&] { convolve_backward(v, o.dy.view(), dx.view()); }));
      EXPECT_EQ(back.maccs, c.taps * real_elements(c));
      const Work update = heard([&] {
        convolve_update(v, o.x.view(), o.dy.view(), dtaps.view(),
                        c.bias ? dbias.view().data : nullptr);
      });
      EXPECT_EQ(update.maccs, c.taps * real_elements(c));
      EXPECT_EQ(update.other_flops(), c.bias ? real_elements(c) : 0);
      for (std::size_t col = 0; col < kCols; ++col) {
        std::vector<double> want_taps(c.taps, 0.0);
        double want_bias = 0.0;
        for (std::size_t b = 0; b < kBatch; ++b) {
          for (std::size_t t = 0; t < c.length; ++t) {
            double want = 0.0;
            for (std::size_t ago = 0; ago < c.taps; ++ago) {
              if (t + ago < c.real(b)) {
                want += o.taps.at(c.taps - 1 - ago, col) * o.dy.at(b * c.length + t + ago, col);
              }
              if (t < c.real(b)) {
                want_taps[c.taps - 1 - ago] +=
                    o.dy.at(b * c.length + t, col) * o.input(c, b, t, ago, col);
              }
            }
            ASSERT_NEAR(dx.at(b * c.length + t, col), want, 1e-5);
            if (t < c.real(b)) want_bias += o.dy.at(b * c.length + t, col);
          }
        }
        for (std::size_t i = 0; i < c.taps; ++i) {
          ASSERT_NEAR(dtaps.at(i, col), want_taps[i], 2e-4) << i;
        }
        ASSERT_NEAR(dbias.at(0, col), c.bias ? want_bias : 0.0, 2e-4);
      }
    }
  });
}

TEST(Convolution, GivesTheSameBitsOnAnyNumberOfThreads) {
  const Case c = cases().back();
  const Operands o(c);
  std::vector<float> first;
  testing::for_each_thread_count([&] {
    GuardedMatrix y(kBatch * c.length, kCols);
    GuardedMatrix dtaps(c.taps, kCols);
    convolve(o.convolution(c), o.x.view(), y.view());
    convolve_update(o.convolution(c), o.x.view(), o.dy.view(), dtaps.view(), nullptr);
    std::vector<float> got;
    for (std::size_t i = 0; i < kBatch * c.length; ++i) got.push_back(y.at(i, i % kCols));
    for (std::size_t i = 0; i < kCols; ++i) got.push_back(dtaps.at(1, i));
    if (first.empty()) first = got;
    EXPECT_EQ(got, first);
  });
}

TEST(Convolution, KeepsTheLastRows) {
  for (const std::size_t length : {1U, 2U, 3U, 7U}) {
    const GuardedMatrix x = GuardedMatrix::random(2 * length, 5, 1);
    GuardedMatrix before = GuardedMatrix::random(2 * 3, 5, 2);
    const GuardedMatrix old = GuardedMatrix::random(2 * 3, 5, 2);
    keep_last_rows(length, x.view(), before.view());
    for (std::size_t b = 0; b < 2; ++b) {
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t at = i + length;  // of old rows and new ones
        const float want = at < 3 ? old.at(b * 3 + at, 4) : x.at(b * length + at - 3, 4);
        EXPECT_EQ(before.at(b * 3 + i, 4), want) << length << " " << i;
      }
    }
  }
}

TEST(Convolution, RefusesShapesThatDoNotFit) {
  std::vector<float> data(1000);
  const Matrix x(data.data(), 6, 4);
  const auto why = [&](ConstMatrix taps, std::size_t length) {
    return testing::message_of([&] {
      convolve({.sequences = {length, {}}, .taps = taps}, x, Matrix(data.data() + 500, 6, 4));
    });
  };
  EXPECT_EQ(why(Matrix(data.data(), 17, 4), 3), "[convolution] 17×4 taps; need 1 to 16 of 4");
  EXPECT_EQ(why(Matrix(data.data(), 3, 5), 3), "[convolution] 3×5 taps; need 1 to 16 of 4");
  EXPECT_EQ(why(Matrix(data.data(), 3, 4), 4),
            "[convolution] 6×4 and 6×4 in sequences of 4; need whole sequences of one width");
  EXPECT_EQ(why(Matrix(data.data(), 3, 4), 3), "");
}

}  // namespace convolution_test
}  // namespace longspan
