#include "longspan/testing/check_layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace longspan::testing {

namespace {

double largest(std::span<const float> x) {
  double most = 0.0;
  for (const float v : x) most = std::max(most, std::abs(static_cast<double>(v)));
  return most;
}

bool is_norm_weight(const Parameter& p) { return p.is_vector && p.name.ends_with("weight"); }

}  // namespace

void randomize(Parameters& parameters, RandomKey key) {
  for (Parameter& p : parameters.all()) {
    const RandomKey stream = derive(key, p.name);
    const float deviation = p.is_vector ? 0.3F : 1.0F / std::sqrt(static_cast<float>(p.cols));
    for (std::size_t i = 0; i < p.size(); ++i) {
      p.value[i] = (is_norm_weight(p) ? 1.0F : 0.0F) + deviation * random_normal(stream, i);
    }
  }
}

Weights weights_of(const Parameters& parameters) {
  Weights weights;
  for (const Parameter& p : parameters.all()) weights.set(p.name, p.rows, p.cols, p.value);
  return weights;
}

std::vector<float> random_values(std::size_t count, RandomKey key, float deviation) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = deviation * random_normal(key, i);
  return values;
}

void expect_gradient(const std::string& name, std::span<const float> gradient, Weights weights,
                     const ReferenceLoss& loss, std::size_t samples) {
  const auto magnitude = [](float a, float b) { return std::abs(a) < std::abs(b); };
  const auto top =
      static_cast<std::size_t>(std::ranges::max_element(gradient, magnitude) - gradient.begin());
  const double scale = largest(gradient);
  const RandomKey key = derive(0, name);
  for (std::size_t s = 0; s < samples; ++s) {
    const std::size_t i = s == 0 ? top : random_below(key, s, gradient.size());
    weights.move(name, i);
    const double want = loss(weights).imag() / kStep;
    // Both scales: an engine that sends nothing must not pass by a scale of zero.
    EXPECT_NEAR(gradient[i], want, kGradientTolerance * std::max(scale, std::abs(want)))
        << name << '[' << i << "], largest " << scale;
  }
}

void expect_gradients(Parameters& parameters, const Weights& weights,
                      const std::function<void()>& run, const ReferenceLoss& loss,
                      std::size_t samples) {
  std::ranges::fill(parameters.gradients(), 0.0F);
  run();
  for (const Parameter& p : parameters.all()) {
    if (p.constant) continue;
    expect_gradient(p.name, p.gradient, weights, loss, samples);
  }
  const std::vector<float> once(parameters.gradients().begin(), parameters.gradients().end());
  std::vector<float> start = random_values(once.size(), 99);
  for (const Parameter& p : parameters.all()) {
    if (p.constant) continue;
    const auto offset = static_cast<std::size_t>(p.gradient.data() - parameters.gradients().data());
    const auto scale = static_cast<float>(largest(p.gradient));
    for (std::size_t i = 0; i < p.size(); ++i) start[offset + i] *= scale;
  }
  std::ranges::copy(start, parameters.gradients().begin());
  run();
  for (const Parameter& p : parameters.all()) {
    if (p.constant) continue;
    const auto offset = static_cast<std::size_t>(p.gradient.data() - parameters.gradients().data());
    const double scale = largest(std::span(once).subspan(offset, p.size()));
    double worst = 0.0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double want = static_cast<double>(start[offset + i]) + once[offset + i];
      worst = std::max(worst, std::abs(want - p.gradient[i]));
    }
    EXPECT_LE(worst, 4e-6 * scale) << p.name << ": the gradient was not added to what was there";
  }
}

void expect_close(std::span<const float> got, std::span<const double> want, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double scale = 0.0;
  for (const double w : want) scale = std::max(scale, std::abs(w));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance * scale) << what << '[' << i << ']';
  }
}

}  // namespace longspan::testing
