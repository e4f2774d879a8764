// In double precision: log-likelihoods are compared in their fourth digit.
#include "longspan/base/intensity.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "longspan/base/random.h"

namespace longspan {

namespace {

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double sigmoid(double x) {
  return x >= 0.0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x));
}
// Below this softplus(x) is eˣ to the last digit.
constexpr double kTail = -37.0;

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
// Whatever the intensity.
constexpr std::size_t kLaidPanels = 16;  // of eight points each
constexpr std::size_t kDrawnPoints = 100;

// The argument of softplus of one type.
struct Course {
  Decay decay;
  double a, b;  // b is the slope, or c of the exponential
  double delta = 0.0;
  double d_delta = 0.0;

  Course(Decay decay_of, std::span<const float> scores, std::size_t types, std::size_t k)
      : decay(decay_of), a(scores[k]), b(scores[types + k]) {
    if (decay == Decay::kAffine) return;
    const double r = scores[2 * types + k];
    delta = softplus(r);
    d_delta = sigmoid(r);
  }

  double argument(double s) const {
    return decay == Decay::kAffine ? a + b * s : b + (a - b) * std::exp(-delta * s);
  }
  // Without integrals.
  IntensityTerm at(double s) const {
    if (decay == Decay::kAffine) return {.argument = a + b * s, .d_argument = {1.0, s, 0.0}};
    const double left = std::exp(-delta * s);
    return {.argument = b + (a - b) * left,
            .d_argument = {left, 1.0 - left, -(a - b) * s * left * d_delta}};
  }
};

void add_point(const Course& course, double s, double weight, IntensityTerm& t) {
  const IntensityTerm here = course.at(s);
  t.integral += weight * softplus(here.argument);
  const double slope = weight * sigmoid(here.argument);
  for (std::size_t i = 0; i < t.d_integral.size(); ++i)
    t.d_integral[i] += slope * here.d_argument[i];
}

void add_panels(const Course& course, double end, std::size_t panels, IntensityTerm& t) {
  const double width = end / static_cast<double>(panels);
  for (std::size_t panel = 0; panel < panels; ++panel) {
    for (const GaussPoint& p : kGauss) {
      add_point(course, width * (static_cast<double>(panel) + 0.5 * (1.0 + p.x)),
                0.5 * width * p.weight, t);
    }
  }
}

void add_affine(const Course& course, double tau, IntensityTerm& t) {
  constexpr double kFlat = 0.5;  // Gauss's eight points are exact below, differences above
  if (std::abs(course.b * tau) < kFlat) {
    add_panels(course, tau, 1, t);
    return;
  }
  const double end = softplus(t.argument);
  t.integral = (integrated_softplus(t.argument) - integrated_softplus(course.a)) / course.b;
  t.d_integral[0] = (end - softplus(course.a)) / course.b;
  t.d_integral[1] = (tau * end - t.integral) / course.b;
}

void add_exponential(const Course& course, double tau, IntensityTerm& t) {
  // Behind `settled` nothing is left of the start; before it panels of half a time constant.
  constexpr double kConstants = 40.0;
  const double settled = std::min(tau, kConstants / course.delta);
  const double halves = std::ceil(2.0 * course.delta * settled);
  // Scores that are not finite have one panel too, and an integral that says so.
  constexpr double kMost = 80.0;
  const double panels = halves >= 1.0 ? std::min(halves, kMost) : 1.0;
  add_panels(course, settled, static_cast<std::size_t>(panels), t);
  t.integral += (tau - settled) * softplus(course.b);
  t.d_integral[1] += (tau - settled) * sigmoid(course.b);
}

// One point of each of as many strata: unbiased, and nearer than points without them.
void add_drawn(const Course& course, double tau, IntensityTerm& t) {
  const RandomKey key =
      derive(derive(std::bit_cast<std::uint64_t>(tau), std::bit_cast<std::uint64_t>(course.a)),
             std::bit_cast<std::uint64_t>(course.b));
  const double width = tau / static_cast<double>(kDrawnPoints);
  for (std::size_t i = 0; i < kDrawnPoints; ++i) {
    add_point(course, width * (static_cast<double>(i) + random_uniform(key, i)), width, t);
  }
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

double IntensityTerm::log_rate() const {
  return argument < kTail ? argument : std::log(softplus(argument));
}

double IntensityTerm::d_log_rate() const {
  return argument < kTail ? 1.0 : sigmoid(argument) / softplus(argument);
}

double Intensities::rate(std::size_t type, double s) const {
  return softplus(Course(decay_, scores_, types_, type).argument(s));
}

double Intensities::total(double s) const {
  double sum = 0.0;
  for (std::size_t k = 0; k < types_; ++k) sum += rate(k, s);
  return sum;
}

double Intensities::integral(double s) const {
  double sum = 0.0;
  for (std::size_t k = 0; k < types_; ++k) sum += term(k, s).integral;
  return sum;
}

IntensityTerm Intensities::term(std::size_t type, double s, Integration integration) const {
  const Course course(decay_, scores_, types_, type);
  IntensityTerm t = course.at(s);
  switch (integration) {
    case Integration::kExact:
      (decay_ == Decay::kAffine ? add_affine : add_exponential)(course, s, t);
      break;
    case Integration::kQuadrature:
      add_panels(course, s, kLaidPanels, t);
      break;
    case Integration::kMonteCarlo:
      add_drawn(course, s, t);
      break;
  }
  return t;
}

}  // namespace longspan
