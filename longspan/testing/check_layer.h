// Gradients of the engine against complex-step derivatives of the reference.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "longspan/base/parameter.h"
#include "longspan/testing/reference.h"

namespace longspan::testing {

// Values at which every term matters: matrices keep the variance of what they multiply, norms'
// weights are near 1 and biases are not 0.
void randomize(Parameters& parameters, RandomKey key);
// What the engine holds, for the reference to read.
Weights weights_of(const Parameters& parameters);
// Standard normal.
std::vector<float> random_values(std::size_t count, RandomKey key, float deviation = 1.0F);

using ReferenceLoss = std::function<Complex(const Weights&)>;

// float32 sums of some tens of products: relative to the largest element of the gradient.
inline constexpr double kGradientTolerance = 2e-5;

// Compares elements of `gradient`, the largest and a random sample, with ∂loss/∂(weights[name]).
void expect_gradient(const std::string& name, std::span<const float> gradient, Weights weights,
                     const ReferenceLoss& loss, std::size_t samples = 8);

// `run` computes forward and backward and adds to the gradients of `parameters`. Checks every
// parameter against the reference, and that the gradients are added to what was there.
void expect_gradients(Parameters& parameters, const Weights& weights,
                      const std::function<void()>& run, const ReferenceLoss& loss,
                      std::size_t samples = 8);

// |got − want| ≤ tolerance·(largest |want|), element by element.
void expect_close(std::span<const float> got, std::span<const double> want, double tolerance,
                  const std::string& what);

}  // namespace longspan::testing
