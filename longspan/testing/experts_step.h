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

template <class S>
std::vector<std::vector<S>> rows_of(const Tensor<S>& t) {
  std::vector<std::vector<S>> rows;
  for (std::size_t i = 0; i < t.rows; ++i) {
    const auto first = t.data.begin() + static_cast<std::ptrdiff_t>(i * t.cols);
    rows.emplace_back(first, first + static_cast<std::ptrdiff_t>(t.cols));
  }
  return rows;
}

template <class S>
using ExpertsLoss = ExpertsLossReference<S>;

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

// The experts called `name` of the weights, without what they are given.
template <class S>
ExpertsReference<S> experts_reference(const ExpertsConfig& config, const std::string& name,
                                      std::string_view activation, bool gated, const Weights& w) {
  ExpertsReference<S> reference;
  reference.config = config;
  reference.router = rows_of(w.get<S>(name + ".router.weight"));
  if (config.router_bias) reference.bias = w.get<S>(name + ".router.bias").data;
  if (config.correction) {
    for (const S& b : w.get<S>(name + ".router.correction").data) {
      reference.correction.push_back(real_part(b));
    }
  }
  const auto run = [&w, gated, activation](const std::string& own, const std::vector<S>& x) {
    Tensor<S> row(1, x.size());
    row.data = x;
    return feed_forward(w, own, activation, gated, row).data;
  };
  reference.feed_forward = [run, name](std::size_t e, const std::vector<S>& x) {
    return run(name + ".expert." + std::to_string(e), x);
  };
  // One that no token prefers is read nevertheless.
  for (std::size_t e = 0; e < config.experts; ++e) {
    const std::string own = name + ".expert." + std::to_string(e);
    for (const char* part : {".in.weight", ".in.bias", ".out.weight", ".out.bias"}) {
      (void)w.get_if<S>(own + part);
    }
  }
  if (config.shared == 0) return reference;
  reference.shared = [run, name](const std::vector<S>& x) { return run(name + ".shared", x); };
  if (config.shared_gate) reference.gate = w.get<S>(name + ".shared_gate.weight").data;
  return reference;
}

template <class S>
ExpertsReference<S> reference_of(const ExpertsCase& c, const Weights& w) {
  ExpertsReference<S> reference =
      experts_reference<S>(c.config, "moe", name_of(c.activation), c.gated, w);
  reference.length = c.length;
  reference.lengths = c.lengths;
  reference.x = rows_of(w.get<S>("x"));
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
    clear_loss();
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
  void clear_loss() {
    routing.loss.clear();
    joint.clear();
  }
  double loss() const { return routing.loss.value() + joint.value(); }
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
  RoutingLoss joint;
  Beside beside{.routing = &routing, .joint = &joint};
  Pass pass;
  std::vector<float> x;
  std::vector<float> dy;
  std::vector<float> y;
  std::vector<float> dx;
  Arena arena;
};

}  // namespace longspan::testing
