#include "longspan/kernels/fourier/fourier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/fourier/fourier_plan.h"
#include "longspan/testing/for_each_target.h"
#include "longspan/testing/guarded_matrix.h"

namespace longspan {
namespace fourier_test {

using testing::for_each_target;
using testing::for_each_thread_count;
using testing::GuardedMatrix;

double turn(std::size_t product, std::size_t of) {
  return 2.0 * std::numbers::pi * static_cast<double>(product % of) / static_cast<double>(of);
}

// y[k, l] = Σ_m (cos(2πmk/n)·re[m, l] − sin(2πmk/n)·im[m, l]) by its definition, re − i·im being
// the transform of the rows.
std::vector<double> direct(ConstMatrix x) {
  const std::size_t n = x.rows;
  const std::size_t d = x.cols;
  std::vector<double> re(n * d);
  std::vector<double> im(n * d);
  for (std::size_t l = 0; l < d; ++l) {
    for (std::size_t j = 0; j < d; ++j) {
      const double c = std::cos(turn(j * l, d));
      const double s = std::sin(turn(j * l, d));
      for (std::size_t m = 0; m < n; ++m) {
        re[m * d + l] += c * x.row(m)[j];
        im[m * d + l] += s * x.row(m)[j];
      }
    }
  }
  std::vector<double> y(n * d);
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t m = 0; m < n; ++m) {
      const double c = std::cos(turn(m * k, n));
      const double s = std::sin(turn(m * k, n));
      for (std::size_t l = 0; l < d; ++l) y[k * d + l] += c * re[m * d + l] - s * im[m * d + l];
    }
  }
  return y;
}

// With room for any number of threads that a test uses.
Arena booked(std::size_t batch, std::size_t n, std::size_t d) {
  Arena dry = Arena::dry();
  const Dry scope;
  const Matrix x(Dry::memory<float>(batch * n * d).data(), batch * n, d);
  fourier_mix(batch, x, x, dry);
  return Arena(dry.peak());
}

GuardedMatrix mixed(std::size_t batch, const GuardedMatrix& x) {
  GuardedMatrix y(x.view().rows, x.view().cols);
  Arena arena = booked(batch, x.view().rows / batch, x.view().cols);
  fourier_mix(batch, x.view(), y.view(), arena);
  EXPECT_EQ(arena.peak(), arena.capacity());
  EXPECT_EQ(arena.used(), 0U);
  EXPECT_TRUE(y.intact());
  return y;
}

// The error of a float32 transform grows with the number of stages and not with the length: some ε
// of the root of the sum of the squares, which is what an output is made of.
void expect_direct(std::size_t n, std::size_t d) {
  const GuardedMatrix x = GuardedMatrix::random(n, d, n * 1000 + d);
  const GuardedMatrix y = mixed(1, x);
  const std::vector<double> want = direct(x.view());
  double squares = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    for (const float v : x.view().row(i)) squares += double{v} * v;
  }
  const double tolerance = 1e-6 * std::sqrt(squares);
  for (std::size_t i = 0; i < n * d; ++i) {
    ASSERT_NEAR(y.at(i / d, i % d), want[i], tolerance) << n << "×" << d << " at " << i;
  }
}

TEST(Fourier, IsItsDefinition) {
  for_each_target([] {
    for (std::size_t n = 1; n <= 40; ++n) {
      expect_direct(n, 1 + n * 7 % 40);
      expect_direct(1 + n * 11 % 37, n);
    }
  });
}

TEST(Fourier, LongerSequences) {
  for (const std::size_t n : {41, 48, 59, 60, 61, 64, 67, 96, 101, 127, 128, 134, 197, 256, 360}) {
    expect_direct(n, 6);
    expect_direct(5, n);
  }
  expect_direct(66, 70);
  expect_direct(197, 48);
  expect_direct(48, 197);
  expect_direct(64, 768);
  expect_direct(768, 33);
}

TEST(Fourier, SequencesOfABatchAreApart) {
  const GuardedMatrix x = GuardedMatrix::random(3 * 10, 12, 1);
  const GuardedMatrix y = mixed(3, x);
  for (std::size_t b = 0; b < 3; ++b) {
    GuardedMatrix one(10, 12);
    for (std::size_t i = 0; i < 120; ++i) one.at(i / 12, i % 12) = x.at(b * 10 + i / 12, i % 12);
    const GuardedMatrix alone = mixed(1, one);
    for (std::size_t i = 0; i < 120; ++i) {
      ASSERT_EQ(alone.at(i / 12, i % 12), y.at(b * 10 + i / 12, i % 12)) << b << ' ' << i;
    }
  }
}

TEST(Fourier, MayOverwriteItsInput) {
  GuardedMatrix x = GuardedMatrix::random(2 * 33, 20, 2);
  const GuardedMatrix y = mixed(2, x);
  Arena arena = booked(2, 33, 20);
  fourier_mix(2, x.view(), x.view(), arena);
  EXPECT_EQ(x, y);
}

TEST(Fourier, IsItsOwnTranspose) {
  for (const auto& [n, d] : {std::pair<std::size_t, std::size_t>{12, 10}, {67, 31}, {33, 134}}) {
    const GuardedMatrix a = GuardedMatrix::random(n, d, 3);
    const GuardedMatrix b = GuardedMatrix::random(n, d, 4);
    const GuardedMatrix ta = mixed(1, a);
    const GuardedMatrix tb = mixed(1, b);
    double left = 0.0;
    double right = 0.0;
    double scale = 0.0;
    for (std::size_t i = 0; i < n * d; ++i) {
      left += double{b.at(i / d, i % d)} * ta.at(i / d, i % d);
      right += double{tb.at(i / d, i % d)} * a.at(i / d, i % d);
      scale += std::abs(double{b.at(i / d, i % d)} * ta.at(i / d, i % d));
    }
    EXPECT_NEAR(left, right, 1e-6 * scale);
  }
}

TEST(Fourier, ThreadsDoNotMatter) {
  const GuardedMatrix x = GuardedMatrix::random(2 * 134, 96, 5);
  const GuardedMatrix want = mixed(2, x);
  for_each_thread_count([&] { EXPECT_EQ(mixed(2, x), want); });
}

// A number that counts what is done to it.
struct Counted {
  double value = 0.0;
  static inline std::uint64_t operations = 0;
};
Counted operator+(Counted a, Counted b) {
  ++Counted::operations;
  return {a.value + b.value};
}
Counted operator-(Counted a, Counted b) {
  ++Counted::operations;
  return {a.value - b.value};
}
Counted operator*(double f, Counted a) {
  ++Counted::operations;
  return {f * a.value};
}

struct Sample {
  Counted re;
  Counted im;
};
Sample operator+(Sample a, Sample b) { return {a.re + b.re, a.im + b.im}; }
Sample operator-(Sample a, Sample b) { return {a.re - b.re, a.im - b.im}; }
Sample operator*(double f, Sample a) { return {f * a.re, f * a.im}; }
Sample times_i(Sample a) { return {{-a.im.value}, a.re}; }  // moves, and a sign of the next sum
Sample turned(Sample a, double angle) {
  const double c = std::cos(angle);
  const double s = -std::sin(angle);
  return {c * a.re - s * a.im, s * a.re + c * a.im};
}

using Samples = std::vector<Sample>;

std::size_t least_radix(std::size_t n) {
  if (n % 4 == 0) return 4;
  for (std::size_t r = 2; r < n; ++r) {
    if (n % r == 0) return r;
  }
  return n;
}
std::size_t largest_prime(std::size_t n) {
  std::size_t largest = 1;
  for (std::size_t r = 2; n > 1; ++r) {
    for (; n % r == 0; n /= r) largest = r;
  }
  return largest;
}

Samples small_transform(const Samples& a) {
  const std::size_t r = a.size();
  if (r == 2) return {a[0] + a[1], a[0] - a[1]};
  if (r == 4) {
    const Samples even = small_transform({a[0], a[2]});
    const Samples odd = small_transform({a[1], a[3]});
    const Sample turn_of_odd = times_i(odd[1]);
    return {even[0] + odd[0], even[1] - turn_of_odd, even[0] - odd[0], even[1] + turn_of_odd};
  }
  Samples x(r, a[0]);
  for (std::size_t j = 1; 2 * j < r; ++j) x[0] = x[0] + (a[j] + a[r - j]);
  std::uint64_t sums_again = 0;  // the sums are shared with those below
  for (std::size_t k = 1; 2 * k < r; ++k) {
    Sample even = a[0];
    Sample odd;
    for (std::size_t j = 1; 2 * j < r; ++j) {
      even = even + std::cos(turn(j * k, r)) * (a[j] + a[r - j]);
      const Sample term = std::sin(turn(j * k, r)) * (a[j] - a[r - j]);
      odd = j == 1 ? term : odd + term;
      sums_again += k == 1 ? 2 : 4;
    }
    x[k] = even - times_i(odd);
    x[r - k] = even + times_i(odd);
  }
  Counted::operations -= sums_again;
  return x;
}

Samples transform(Samples x);

// Back from the spectrum leads the same transform, with the parts swapped before and after.
Samples by_chirp(const Samples& x) {
  const std::size_t n = x.size();
  std::size_t m = 2 * n - 1;
  while (largest_prime(m) > 5) ++m;
  Samples a(m);
  Samples chirp(m);
  for (std::size_t j = 0; j < n; ++j) {
    a[j] = turned(x[j], turn(j * j, 2 * n));
    const double angle = turn(j * j, 2 * n);
    chirp[j] = chirp[(m - j) % m] = {{std::cos(angle) / static_cast<double>(m)},
                                     {std::sin(angle) / static_cast<double>(m)}};
  }
  a = transform(a);
  const std::uint64_t before = Counted::operations;
  chirp = transform(chirp);  // done once, with the plan
  Counted::operations = before;
  for (std::size_t k = 0; k < m; ++k) {
    const Sample c = chirp[k];
    a[k] = {c.im.value * a[k].re + c.re.value * a[k].im,
            c.re.value * a[k].re - c.im.value * a[k].im};
  }
  a = transform(a);
  Samples y(n);
  for (std::size_t k = 0; k < n; ++k) y[k] = turned({a[k].im, a[k].re}, turn(k * k, 2 * n));
  return y;
}

Samples transform(Samples x) {
  const std::size_t n = x.size();
  if (n == 1) return x;
  if (largest_prime(n) > FourierFactors::kLargestRadix) return by_chirp(x);
  const std::size_t r = least_radix(n);
  std::vector<Samples> parts(r, Samples(n / r));
  for (std::size_t p = 0; p < n / r; ++p) {
    Samples a(r);
    for (std::size_t j = 0; j < r; ++j) a[j] = x[p + n / r * j];
    a = small_transform(a);
    for (std::size_t k = 0; k < r; ++k) {
      parts[k][p] = p == 0 || k == 0 ? a[k] : turned(a[k], turn(p * k, n));
    }
  }
  Samples y(n);
  for (std::size_t k = 0; k < r; ++k) {
    const Samples part = transform(parts[k]);
    for (std::size_t i = 0; i < part.size(); ++i) y[k + r * i] = part[i];
  }
  return y;
}

// 2·H[k] of two real sequences, which are the parts of x, for all k.
Samples hartley(Samples x) {
  const std::size_t n = x.size();
  x = transform(std::move(x));
  Samples y(n);
  for (std::size_t k = 0; k <= n / 2; ++k) {
    const Sample a = x[k];
    const Sample b = x[(n - k) % n];
    const Sample sum = a + b;
    const Sample difference = {a.im - b.im, b.re - a.re};
    y[(n - k) % n] = sum + difference;
    y[k] = sum - difference;
  }
  return y;
}

// The mixing as fourier.h describes it, two sequences at a time.
std::vector<double> counted(ConstMatrix x) {
  const std::size_t n = x.rows;
  const std::size_t d = x.cols;
  std::vector<std::vector<Counted>> t(n / 2 + 1, std::vector<Counted>(d));
  for (std::size_t m = 0; m <= n / 2; m += 2) {
    Samples row(d);
    for (std::size_t j = 0; j < d; ++j) {
      const auto folded = [&](std::size_t i) {
        return 0.125 * (Counted{x.row(i)[j]} + Counted{x.row((n - i) % n)[(d - j) % d]});
      };
      row[j] = {folded(m), m + 1 <= n / 2 ? folded(m + 1) : Counted{}};
    }
    row = hartley(std::move(row));
    for (std::size_t l = 0; l < d; ++l) {
      t[m][l] = row[l].re;
      if (m + 1 <= n / 2) t[m + 1][l] = row[l].im;
    }
  }
  std::vector<double> y(n * d);
  for (std::size_t l = 0; l <= d / 2; l += 2) {
    const auto c = [&](std::size_t m, std::size_t col) {
      if (col > d / 2) return Counted{};
      return m <= n / 2 ? t[m][(d - col) % d] : t[n - m][col];
    };
    Samples column(n);
    for (std::size_t m = 0; m < n; ++m) column[m] = {c(m, l), c(m, l + 1)};
    column = hartley(std::move(column));
    for (std::size_t k = 0; k < n; ++k) {
      const auto set = [&](std::size_t col, Counted v) {
        y[k * d + col] = y[(n - k) % n * d + (d - col) % d] = v.value;
      };
      set(l, column[k].re);
      if (l + 1 <= d / 2) set(l + 1, column[k].im);
    }
  }
  return y;
}

TEST(Fourier, CountsWhatItDoes) {
  const std::vector<std::pair<std::size_t, std::size_t>> shapes = {
      {1, 1},   {1, 2},   {2, 1},  {3, 5},   {4, 4},   {8, 6},    {7, 9},   {13, 14},
      {16, 15}, {60, 32}, {61, 8}, {67, 12}, {24, 71}, {134, 67}, {48, 77}, {128, 96}};
  for (const auto& [n, d] : shapes) {
    SCOPED_TRACE(std::to_string(n) + "×" + std::to_string(d));
    const GuardedMatrix x = GuardedMatrix::random(n, d, 6);
    Counted::operations = 0;
    const std::vector<double> y = counted(x.view());
    const std::uint64_t operations = Counted::operations;
    const std::vector<double> want = direct(x.view());
    for (std::size_t i = 0; i < n * d; ++i) ASSERT_NEAR(y[i], want[i], 1e-9 * double(n * d));
    EXPECT_EQ(fourier_work(1, n, d).flops(), operations);
    EXPECT_EQ(fourier_work(3, n, d).flops(), 3 * operations);
  }
}

TEST(Fourier, TellsTheMeter) {
  Meter meter;
  const Meter::Use use(meter);
  mixed(2, GuardedMatrix::random(2 * 12, 10, 7));
  // Booking and mixing: 7 of 12 rows, 6 of 10 columns.
  EXPECT_EQ(
      meter.total(Phase::kForward)[Kind::kFourier],
      2 * 2 * (2 * 7 * 10 + 4 * (fourier_flops(10) + 8 * 6) + 3 * (fourier_flops(12) + 8 * 7)));
  EXPECT_EQ(fourier_flops(10), 5 * 4 + 6 * (5 - 1) + 2 * 48);
  EXPECT_EQ(fourier_flops(12), 3 * 16 + 6 * 3 * (3 - 1) + 4 * 16);
}

TEST(Fourier, RefusesShapesThatDoNotFit) {
  Arena arena(1U << 16U);
  GuardedMatrix x(7, 4);
  GuardedMatrix y(6, 4);
  const auto text = [&](std::size_t batch, Matrix to) {
    try {
      fourier_mix(batch, x.view(), to, arena);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(text(1, y.view()), "[fourier] y is 6×4; need the 7×4 of x");
  EXPECT_EQ(text(2, x.view()), "[fourier] 7 rows for 2 sequences; need a multiple");
}

}  // namespace fourier_test
}  // namespace longspan
