// Experts as the tests of them use them: a case, its reference, and one step.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "longspan/layers/experts.h"
#include "longspan/layers/experts_ref.h"
#include "longspan/testing/check_branch.h"
#include "longspan/testing/check_layer.h"

namespace longspan::testing {

struct ExpertsCase {
  std::string name;
  ExpertsConfig config;
  std::size_t batch = 1;
  std::size_t length = 1;
  std::size_t d = 1;
  std::size_t f = 1;
  Activation activation = Activation::kGelu;
  bool gated = false;
  bool bias = true;
  std::vector<std::int32_t> lengths = {};
  bool drops = false;

  FeedForwardConfig each() const {
    return {.d_model = d, .d_ff = f, .activation = activation, .gated = gated, .bias = bias};
  }
  Pass pass() const {
    Pass p;
    p.batch = batch;
    p.length = length;
    p.lengths = lengths;
    p.training = true;
    return p;
  }
};

template <class S>
ExpertsReference<S> reference_of(const ExpertsCase& c, const Weights& w) {
  ExpertsReference<S> reference;
  reference.experts = c.config.experts;
  reference.top = c.config.top;
  reference.factor = c.config.capacity;
  reference.alpha = c.config.balance;
  reference.normalize = c.config.normalize;
  reference.length = c.length;
  reference.lengths = c.lengths;
  const auto rows = [](const Tensor<S>& t) {
    std::vector<std::vector<S>> split;
    for (std::size_t i = 0; i < t.rows; ++i) {
      split.emplace_back(t.data.begin() + static_cast<std::ptrdiff_t>(i * t.cols),
                         t.data.begin() + static_cast<std::ptrdiff_t>((i + 1) * t.cols));
    }
    return split;
  };
  reference.x = rows(w.get<S>("x"));
  reference.router = rows(w.get<S>("moe.router.weight"));
  reference.feed_forward = [&c, &w](std::size_t e, const std::vector<S>& x) {
    Tensor<S> row(1, x.size());
    row.data = x;
    return feed_forward(w, "moe.expert." + std::to_string(e), name_of(c.activation), c.gated, row)
        .data;
  };
  return reference;
}

inline Tensor<Complex> joined(const std::vector<std::vector<Complex>>& rows, std::size_t cols) {
  Tensor<Complex> t(rows.size(), cols);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < cols; ++j) t(i, j) = rows[i][j];
  }
  return t;
}

// Experts with parameters, inputs, outputs and gradients; one step is forward, backward and
// accumulate.
struct ExpertsStep {
  explicit ExpertsStep(const ExpertsCase& c_, RandomKey key = 7)
      : c(c_),
        experts(parameters, "moe", c.config, c.each()),
        pass(c.pass()),
        x(random_values(pass.rows() * c.d, key)),
        dy(random_values(x.size(), key + 1)),
        y(x.size(), std::nanf("")),
        dx(x.size(), std::nanf("")),
        arena(std::size_t{1} << 26U) {
    parameters.allocate();
    randomize(parameters, key + 2);
  }

  void forward(const Kept* saved) {
    const Place::Scope scope("branch", Phase::kForward);
    experts.forward({pass, rows(x), rows(y), saved, beside, arena});
  }
  // On the way back.
  void forward_again() {
    const Place::Again again;
    forward(nullptr);
  }
  void run() {
    const Arena::Frame frame(arena);
    const Kept saved = experts.save(pass, arena);
    forward(&saved);
    Kept signals;
    {
      const Place::Scope scope("branch", Phase::kBackward);
      signals = experts.backward({pass, saved, rows(dy), rows(dx), beside, arena});
    }
    const Place::Scope scope("branch", Phase::kUpdate);
    experts.accumulate({pass, rows(x), saved, rows(dy), signals, beside});
  }
  Weights weights() const {
    Weights w = weights_of(parameters);
    w.set("x", pass.rows(), c.d, x);
    return w;
  }
  Matrix rows(std::vector<float>& v) const { return {v.data(), pass.rows(), c.d}; }
  bool is_zero(std::size_t row) const {
    return std::all_of(y.begin() + static_cast<std::ptrdiff_t>(row * c.d),
                       y.begin() + static_cast<std::ptrdiff_t>((row + 1) * c.d),
                       [](float v) { return v == 0.0F; });
  }

  ExpertsCase c;
  Parameters parameters;
  Experts experts;
  Routing routing;
  Beside beside{.routing = &routing};
  Pass pass;
  std::vector<float> x;
  std::vector<float> dy;
  std::vector<float> y;
  std::vector<float> dx;
  Arena arena;
};

}  // namespace longspan::testing
