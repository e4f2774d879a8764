// Plain loops in double precision: rows have few types, and log-likelihoods are compared in their
// fourth digit.
#include "longspan/kernels/rows/point_process.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/kernels/pieces.h"

namespace longspan {

namespace {

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double sigmoid(double x) {
  return x >= 0.0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x));
}
// Below this softplus(x) is eˣ to the last digit.
constexpr double kTail = -37.0;
double log_softplus(double x) { return x < kTail ? x : std::log(softplus(x)); }
// d log softplus / dx
double relative_slope(double x) { return x < kTail ? 1.0 : sigmoid(x) / softplus(x); }

// Of [−1, 1].
struct GaussPoint {
  double x, weight;
};
constexpr std::array<GaussPoint, 8> kGauss = {{{-0.9602898564975363, 0.1012285362903763},
                                               {-0.7966664774136267, 0.2223810344533745},
                                               {-0.5255324099163290, 0.3137066458778873},
                                               {-0.1834346424956498, 0.3626837833783620},
                                               {0.1834346424956498, 0.3626837833783620},
                                               {0.5255324099163290, 0.3137066458778873},
                                               {0.7966664774136267, 0.2223810344533745},
                                               {0.9602898564975363, 0.1012285362903763}}};

// What a type adds to a row: its intensity's argument at τ and the integral up to it, with the
// derivatives of both in its scores.
struct Term {
  double argument = 0.0;
  double integral = 0.0;
  std::array<double, 3> d_argument{};
  std::array<double, 3> d_integral{};
};

Term affine(double a, double b, double tau) {
  Term t;
  t.argument = a + b * tau;
  t.d_argument = {1.0, tau, 0.0};
  constexpr double kFlat = 0.5;  // Gauss's eight points are exact below, differences above
  if (std::abs(b * tau) < kFlat) {
    for (const GaussPoint& p : kGauss) {
      const double s = 0.5 * tau * (1.0 + p.x);
      const double weight = 0.5 * tau * p.weight;
      const double slope = weight * sigmoid(a + b * s);
      t.integral += weight * softplus(a + b * s);
      t.d_integral[0] += slope;
      t.d_integral[1] += slope * s;
    }
    return t;
  }
  const double end = softplus(t.argument);
  t.integral = (integrated_softplus(t.argument) - integrated_softplus(a)) / b;
  t.d_integral[0] = (end - softplus(a)) / b;
  t.d_integral[1] = (tau * end - t.integral) / b;
  return t;
}

Term exponential(double a, double c, double r, double tau) {
  Term t;
  const double delta = softplus(r);
  const double d_delta = sigmoid(r);
  const double left = std::exp(-delta * tau);
  t.argument = c + (a - c) * left;
  t.d_argument = {left, 1.0 - left, -(a - c) * tau * left * d_delta};
  // Behind `settled` nothing is left of the start; before it panels of one time constant.
  constexpr double kConstants = 40.0;
  const double settled = std::min(tau, kConstants / delta);
  const auto panels =
      static_cast<std::size_t>(std::clamp(std::ceil(2.0 * delta * settled), 1.0, 80.0));
  const double width = settled / static_cast<double>(panels);
  for (std::size_t panel = 0; panel < panels; ++panel) {
    for (const GaussPoint& p : kGauss) {
      const double s = width * (static_cast<double>(panel) + 0.5 * (1.0 + p.x));
      const double weight = 0.5 * width * p.weight;
      const double e = std::exp(-delta * s);
      const double x = c + (a - c) * e;
      const double slope = weight * sigmoid(x);
      t.integral += weight * softplus(x);
      t.d_integral[0] += slope * e;
      t.d_integral[1] += slope * (1.0 - e);
      t.d_integral[2] -= slope * (a - c) * s * e * d_delta;
    }
  }
  t.integral += (tau - settled) * softplus(c);
  t.d_integral[1] += (tau - settled) * sigmoid(c);
  return t;
}

Term term_of(Decay decay, const float* scores, std::size_t types, std::size_t k, double tau) {
  const double first = scores[k];
  const double second = scores[types + k];
  return decay == Decay::kAffine ? affine(first, second, tau)
                                 : exponential(first, second, scores[2 * types + k], tau);
}

// Of one row; with `scale` its scores become the gradient.
PointProcessSum row_sum(Decay decay, const float* scores, std::size_t types, std::int32_t type,
                        double tau, float* gradient, double scale) {
  PointProcessSum sum;
  const std::size_t parts = scores_per_type(decay);
  const bool event = type >= 0;
  std::size_t likeliest = 0;
  double highest = 0.0;
  for (std::size_t k = 0; k < types; ++k) {
    const Term t = term_of(decay, scores, types, k, tau);
    const bool happened = event && static_cast<std::size_t>(type) == k;
    sum.loss += t.integral - (happened ? log_softplus(t.argument) : 0.0);
    if (k == 0 || t.argument > highest) {
      likeliest = k;
      highest = t.argument;
    }
    if (gradient == nullptr) continue;
    const double slope = happened ? relative_slope(t.argument) : 0.0;
    for (std::size_t part = 0; part < parts; ++part) {
      gradient[part * types + k] =
          static_cast<float>(scale * (t.d_integral[part] - slope * t.d_argument[part]));
    }
  }
  if (event) {
    sum.events = 1;
    sum.correct = likeliest == static_cast<std::size_t>(type) ? 1 : 0;
  }
  return sum;
}

std::size_t checked_types(Decay decay, ConstMatrix scores, const EventRows& rows) {
  const std::size_t parts = scores_per_type(decay);
  require(scores.cols > 0 && scores.cols % parts == 0 && rows.types.size() == scores.rows &&
              rows.gaps.size() == scores.rows,
          "[events] {}×{} scores, {} types and {} gaps; need {} scores a type and one gap a row",
          scores.rows, scores.cols, rows.types.size(), rows.gaps.size(), parts);
  return scores.cols / parts;
}

// Blocks of rows, at most kBlocks, so that their sums fit on the stack and are added in order.
template <class Body>
PointProcessSum total(std::size_t rows, std::size_t cols, const Body& body) {
  constexpr std::size_t kBlocks = 128;
  constexpr std::size_t kSlow = 64;  // a score takes as long as so many elements of other loops
  const std::size_t grain =
      std::max(detail::rows_per_piece(kSlow * cols), divide_up(rows, kBlocks));
  std::array<PointProcessSum, kBlocks> parts{};
  detail::in_pieces(rows, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const PointProcessSum row = body(r);
      PointProcessSum& part = parts[begin / grain];
      part.loss += row.loss;
      part.events += row.events;
      part.correct += row.correct;
    }
  });
  PointProcessSum sum;
  for (const PointProcessSum& part : parts) {
    sum.loss += part.loss;
    sum.events += part.events;
    sum.correct += part.correct;
  }
  return sum;
}

Call events_call(ConstMatrix scores, std::uint64_t flops_each) {
  return row_call(Op::kLoss, {}, scores.rows, scores.cols, Kind::kSoftmax, flops_each, 8);
}

}  // namespace

double integrated_softplus(double x) {
  if (x > 0.0) {
    return std::numbers::pi * std::numbers::pi / 6.0 + 0.5 * x * x - integrated_softplus(-x);
  }
  // −Li₂(−eˣ) in powers of u = log(1 + eˣ) ≤ log 2, Bernoulli's numbers over factorials.
  constexpr std::array<double, 8> kEven = {
      1.0 / 36.0,        -1.0 / 3600.0,           1.0 / 211680.0,         -1.0 / 10886400.0,
      1.0 / 526901760.0, -4.0647616451442255e-11, 8.9216910204564526e-13, -1.9939295860721076e-14};
  const double u = std::log1p(std::exp(x));
  double power = u;
  double sum = u + 0.25 * u * u;
  for (const double coefficient : kEven) {
    power *= u * u;
    sum += coefficient * power;
  }
  return sum;
}

Intensity intensity(Decay decay, const float* scores, std::size_t types, std::size_t k, double s) {
  const Term t = term_of(decay, scores, types, k, s);
  return {softplus(t.argument), t.integral};
}

PointProcessSum point_process(Decay decay, ConstMatrix scores, const EventRows& rows) {
  const std::size_t types = checked_types(decay, scores, rows);
  const Called called([&] { return events_call(scores, 20); });
  if (called.dry()) return {};
  return total(scores.rows, scores.cols, [&](std::size_t r) {
    if (rows.types[r] == kIgnoredRow) return PointProcessSum{};
    return row_sum(decay, scores.row_data(r), types, rows.types[r], rows.gaps[r], nullptr, 0.0);
  });
}

PointProcessSum point_process_gradient(Decay decay, Matrix scores, const EventRows& rows,
                                       float scale) {
  const std::size_t types = checked_types(decay, scores, rows);
  const Called called([&] { return events_call(scores, 30); });
  if (called.dry()) return {};
  return total(scores.rows, scores.cols, [&](std::size_t r) {
    float* const row = scores.row_data(r);
    if (rows.types[r] == kIgnoredRow) {
      std::fill_n(row, scores.cols, 0.0F);
      return PointProcessSum{};
    }
    // Types are read one by one, each before its scores are written.
    return row_sum(decay, row, types, rows.types[r], rows.gaps[r], row, scale);
  });
}

}  // namespace longspan
