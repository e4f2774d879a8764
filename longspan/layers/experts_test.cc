#include "longspan/layers/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/layers/experts_ref.h"
#include "longspan/layers/residual.h"
#include "longspan/testing/allocations.h"
#include "longspan/testing/check_branch.h"
#include "longspan/testing/dry_branch.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace experts_test {

using testing::Complex;
using testing::Tensor;
using testing::walk_branch;
using testing::Weights;

struct Case {
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
ExpertsReference<S> reference_of(const Case& c, const Weights& w) {
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
    return testing::feed_forward(w, "moe.expert." + std::to_string(e), name_of(c.activation),
                                 c.gated, row)
        .data;
  };
  return reference;
}

Tensor<Complex> joined(const std::vector<std::vector<Complex>>& rows, std::size_t cols) {
  Tensor<Complex> t(rows.size(), cols);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < cols; ++j) t(i, j) = rows[i][j];
  }
  return t;
}

// Experts with parameters, inputs, outputs and gradients; one step is forward, backward and
// accumulate.
struct Step {
  explicit Step(const Case& c_, RandomKey key = 7)
      : c(c_),
        experts(parameters, "moe", c.config, c.each()),
        pass(c.pass()),
        x(testing::random_values(pass.rows() * c.d, key)),
        dy(testing::random_values(x.size(), key + 1)),
        y(x.size(), std::nanf("")),
        dx(x.size(), std::nanf("")),
        arena(std::size_t{1} << 26U) {
    parameters.allocate();
    testing::randomize(parameters, key + 2);
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
    Weights w = testing::weights_of(parameters);
    w.set("x", pass.rows(), c.d, x);
    return w;
  }
  Matrix rows(std::vector<float>& v) const { return {v.data(), pass.rows(), c.d}; }
  bool is_zero(std::size_t row) const {
    return std::all_of(y.begin() + static_cast<std::ptrdiff_t>(row * c.d),
                       y.begin() + static_cast<std::ptrdiff_t>((row + 1) * c.d),
                       [](float v) { return v == 0.0F; });
  }

  Case c;
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

class ExpertsCases : public ::testing::TestWithParam<Case> {};

TEST_P(ExpertsCases, KeepTheirPromises) {
  const Case& c = GetParam();
  Parameters parameters;
  const Experts layer(parameters, "moe", c.config, c.each());
  parameters.allocate();
  Routing routing;
  routing.weight = 0.0F;
  testing::BranchCase check;
  check.branch = &layer;
  check.parameters = &parameters;
  check.pass = c.pass();
  check.beside.routing = &routing;
  check.d_model = c.d;
  check.reference = [&](const Weights& w) {
    return joined(reference_of<Complex>(c, w).forward().y, c.d);
  };
  testing::expect_branch(check);
}

TEST_P(ExpertsCases, BalanceTheirLoads) {
  Step step(GetParam());
  step.routing.weight = 3.0F;
  step.run();
  const auto want = reference_of<double>(step.c, step.weights()).forward();
  EXPECT_NEAR(step.routing.loss, want.loss, 1e-6 * want.loss);
  EXPECT_EQ(want.dropped > 0, step.c.drops);
  ASSERT_EQ(step.routing.loads.size(), want.loads.size());
  for (std::size_t e = 0; e < want.loads.size(); ++e) {
    EXPECT_EQ(static_cast<std::size_t>(step.routing.loads[e]), want.loads[e]) << e;
  }
  const testing::ReferenceLoss loss = [&](const Weights& w) {
    const auto got = reference_of<Complex>(step.c, w).forward();
    Complex sum = 3.0 * got.loss;
    const Tensor<Complex> y = joined(got.y, step.c.d);
    for (std::size_t i = 0; i < y.data.size(); ++i) {
      sum += y.data[i] * static_cast<double>(step.dy[i]);
    }
    return sum;
  };
  testing::expect_gradients(
      step.parameters, step.weights(), [&] { step.run(); }, loss);
  testing::expect_gradient("x", step.dx, step.weights(), loss, 16);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ExpertsCases,
    ::testing::Values(
        Case{"one", {.experts = 1, .balance = 0.5}, 1, 1, 1, 1},
        Case{"one_expert", {.experts = 1, .balance = 0.5}, 2, 5, 7, 13},
        Case{.name = "switch",
             .config = {.experts = 4, .balance = 2.0},
             .batch = 2,
             .length = 11,
             .d = 7,
             .f = 13,
             .drops = true},
        Case{.name = "switch_room_for_all",
             .config = {.experts = 3, .capacity = 3.0, .balance = 2.0},
             .batch = 1,
             .length = 17,
             .d = 8,
             .f = 33,
             .activation = Activation::kRelu},
        Case{.name = "one_row_each",
             .config = {.experts = 5, .capacity = 0.1, .balance = 2.0},
             .batch = 2,
             .length = 7,
             .d = 5,
             .f = 9,
             .activation = Activation::kTanh,
             .drops = true},
        Case{.name = "gshard",
             .config = {.experts = 4, .top = 2, .balance = 2.0},
             .batch = 3,
             .length = 5,
             .d = 6,
             .f = 17,
             .drops = true},
        Case{.name = "gshard_swiglu_padded",
             .config = {.experts = 3, .top = 2, .capacity = 1.0, .balance = 2.0},
             .batch = 3,
             .length = 7,
             .d = 9,
             .f = 11,
             .activation = Activation::kSilu,
             .gated = true,
             .bias = false,
             .lengths = {7, 0, 4},
             .drops = true},
        Case{
            .name = "probabilities_as_gates",
            .config = {.experts = 5, .top = 2, .capacity = 1.0, .balance = 2.0, .normalize = false},
            .batch = 1,
            .length = 19,
            .d = 9,
            .f = 5,
            .gated = true,
            .drops = true},
        Case{.name = "three_of_three",
             .config = {.experts = 3, .top = 3, .capacity = 1.0, .balance = 2.0},
             .batch = 2,
             .length = 4,
             .d = 6,
             .f = 7},
        Case{.name = "switch_padded",
             .config = {.experts = 2, .capacity = 0.8, .balance = 2.0},
             .batch = 4,
             .length = 6,
             .d = 10,
             .f = 6,
             .lengths = {1, 6, 3, 5},
             .drops = true}),
    [](const auto& instance) { return instance.param.name; });

TEST(Experts, OneIsTheFeedForwardItself) {
  Step step({.name = "one",
             .config = {.experts = 1},
             .batch = 2,
             .length = 5,
             .d = 7,
             .f = 13,
             .activation = Activation::kRelu});
  step.routing.weight = 0.0F;
  step.run();
  Parameters parameters;
  const FeedForward plain(parameters, "ffn", step.c.each());
  parameters.allocate();
  for (Parameter& p : parameters.all()) {
    const std::string part = p.name.substr(3);
    std::ranges::copy(step.parameters.find("moe.expert.0" + part)->value, p.value.begin());
  }
  std::vector<float> y(step.y.size());
  std::vector<float> dx(step.y.size());
  const Kept saved = plain.save(step.pass, step.arena);
  plain.forward({step.pass, step.rows(step.x), step.rows(y), &saved, {}, step.arena});
  const Kept signals =
      plain.backward({step.pass, saved, step.rows(step.dy), step.rows(dx), {}, step.arena});
  plain.accumulate({step.pass, step.rows(step.x), saved, step.rows(step.dy), signals, {}});
  EXPECT_EQ(step.y, y);
  EXPECT_EQ(step.dx, dx);
  for (const Parameter& p : parameters.all()) {
    EXPECT_TRUE(std::ranges::equal(
        p.gradient, step.parameters.find("moe.expert.0" + p.name.substr(3))->gradient))
        << p.name;
  }
}

// x[0] = 1, and the router looks at nothing else: everybody prefers expert 2, and then 1.
void send_everybody(Step& step) {
  Parameter& router = *step.parameters.find("moe.router.weight");
  std::ranges::fill(router.value, 0.0F);
  router.value[2 * step.c.d] = 4.0F;
  router.value[1 * step.c.d] = 2.0F;
  for (std::size_t r = 0; r < step.pass.rows(); ++r) step.x[r * step.c.d] = 1.0F;
}

TEST(Experts, TakeWhoComesFirst) {
  Step step({.name = "", .config = {.experts = 4}, .batch = 3, .length = 4, .d = 5, .f = 6});
  send_everybody(step);
  step.run();
  EXPECT_EQ(step.routing.loads, (std::vector<std::int32_t>{0, 0, 4, 0}));  // ⌈1.25·12/4⌉
  for (std::size_t r = 0; r < 12; ++r) EXPECT_EQ(step.is_zero(r), r >= 4) << r;
}

TEST(Experts, CountPaddingForNothing) {
  Step step({.name = "",
             .config = {.experts = 4, .capacity = 2.0},
             .batch = 3,
             .length = 4,
             .d = 5,
             .f = 6,
             .lengths = {1, 3, 4}});
  send_everybody(step);
  step.run();
  EXPECT_EQ(step.routing.loads, (std::vector<std::int32_t>{0, 0, 4, 0}));  // ⌈2·8/4⌉
  for (std::size_t r = 0; r < 12; ++r) {
    EXPECT_EQ(step.is_zero(r), !(r == 0 || (r >= 4 && r <= 6))) << r;
  }
}

TEST(Experts, TakeSecondChoicesAfterAllFirst) {
  Step step({.name = "",
             .config = {.experts = 4, .top = 2, .capacity = 1.0},
             .batch = 1,
             .length = 8,
             .d = 5,
             .f = 6});
  send_everybody(step);
  // The last four prefer 1, and would have had 2 next: its four places went to the first four,
  // whose own second choice, 1, is then full.
  Parameter& router = *step.parameters.find("moe.router.weight");
  router.value[1 * step.c.d + 1] = 8.0F;
  for (std::size_t r = 0; r < 8; ++r) step.x[r * step.c.d + 1] = r < 4 ? 0.0F : 1.0F;
  step.run();
  EXPECT_EQ(step.routing.loads, (std::vector<std::int32_t>{0, 4, 4, 0}));
  const auto want = reference_of<double>(step.c, step.weights()).forward();
  EXPECT_EQ(want.dropped, 8U);
  for (std::size_t i = 0; i < step.y.size(); ++i) {
    EXPECT_NEAR(step.y[i], want.y[i / 5][i % 5], 1e-5);
  }
}

TEST(Experts, CanDoWithoutTokens) {
  Step step({.name = "",
             .config = {.experts = 3, .top = 2},
             .batch = 2,
             .length = 3,
             .d = 4,
             .f = 5,
             .lengths = {0, 0}});
  step.run();
  for (std::size_t r = 0; r < 6; ++r) EXPECT_TRUE(step.is_zero(r));
  EXPECT_TRUE(std::ranges::all_of(step.dx, [](float v) { return v == 0.0F; }));
  EXPECT_EQ(step.routing.loss, 0.0);
}

TEST(Experts, CapacityIsRoundedUpOnce) {
  EXPECT_EQ(expert_capacity(1.25, 1, 12, 4), 4U);
  EXPECT_EQ(expert_capacity(1.0, 1, 13, 4), 4U);
  EXPECT_EQ(expert_capacity(1.1, 2, 100, 4), 55U);  // 55.00000000000001 in double
  EXPECT_EQ(expert_capacity(1.0, 2, 13, 4), 7U);
  EXPECT_EQ(expert_capacity(0.01, 1, 13, 4), 1U);
  EXPECT_EQ(expert_capacity(1e300, 2, 13, 4), 13U);
  EXPECT_EQ(expert_capacity(2.0, 1, 0, 4), 0U);
}

// S rows computed of M, T of them real.
TEST(Experts, CountWhatTheyDid) {
  for (const bool gated : {false, true}) {
    Step step({.name = "",
               .config = {.experts = 4, .top = 2, .capacity = 1.0},
               .batch = 2,
               .length = 9,
               .d = 5,
               .f = 7,
               .activation = Activation::kRelu,
               .gated = gated,
               .lengths = {9, 6}});
    Meter meter;
    {
      const Meter::Use use(meter);
      step.run();
    }
    const std::uint64_t s =
        std::accumulate(step.routing.loads.begin(), step.routing.loads.end(), std::uint64_t{0});
    ASSERT_LT(s, 30U);
    const std::uint64_t m = 18;
    const std::uint64_t t = 15;
    const std::uint64_t products = m * 5 * 4 + s * 5 * 7 * (gated ? 3 : 2);
    const std::uint64_t in = gated ? 14 : 7;
    const ActivationFlops relu = flops_of(Activation::kRelu);
    const auto at = [&](Phase phase) { return meter.at("branch", phase); };
    EXPECT_EQ(at(Phase::kForward).maccs, products);
    EXPECT_EQ(at(Phase::kBackward).maccs, products + s * 5);
    EXPECT_EQ(at(Phase::kUpdate).maccs, products);
    EXPECT_EQ(at(Phase::kForward).other_flops(),
              t * (5 * 4 + 3) + t * 2 * 5 + (m * 4 + 2 * 4) + s * (in + 5) +
                  s * 7 * (relu.forward + (gated ? 1 : 0)) + 2 * s * 5);
    EXPECT_EQ(at(Phase::kBackward).other_flops(),
              t * (5 * 4 + 2 + 8) + 2 * s * 5 +
                  s * 7 * (gated ? relu.forward + relu.backward + 2 : relu.backward));
    EXPECT_EQ(at(Phase::kUpdate).other_flops(), s * (in + 5));
  }
}

TEST(Experts, AreWalkedWithTheirLoadsOrEvenly) {
  Step step({.name = "", .config = {.experts = 4}, .batch = 1, .length = 18, .d = 5, .f = 7});
  const auto macc = [&] {
    return walk_branch(step.experts, step.pass, 5, step.beside).cost.forward.maccs;
  };
  EXPECT_EQ(macc(), 18U * 5 * 4 + 18U * 70);
  EXPECT_TRUE(step.routing.loads.empty());
  EXPECT_EQ(step.routing.loss, 0.0);
  step.routing.loads = {6, 0, 1, 0};
  EXPECT_EQ(macc(), 18U * 5 * 4 + 7U * 70);
  step.beside.routing = nullptr;
  EXPECT_EQ(macc(), 18U * 5 * 4 + 18U * 70);
}

TEST(Experts, DropInAWalkWhatHasNoPlace) {
  Step step({.name = "",
             .config = {.experts = 2, .capacity = 0.5},
             .batch = 1,
             .length = 18,
             .d = 5,
             .f = 7,
             .gated = true});
  EXPECT_EQ(walk_branch(step.experts, step.pass, 5, step.beside).cost.forward.maccs,
            18U * 5 * 2 + 10U * 105);
}

// M rows, room for R of them in all and for C with an expert.
TEST(Experts, TakeMemoryByCapacity) {
  for (const bool gated : {false, true}) {
    Step step({.name = "",
               .config = {.experts = 4, .top = 2, .capacity = 0.75},
               .batch = 2,
               .length = 50,
               .d = 21,
               .f = 33,
               .gated = gated,
               .lengths = {50, 30}});
    const std::size_t m = 100;
    const std::size_t c = 30;  // ¾·2·80/4
    const std::size_t r = 120;
    const std::size_t hidden = gated ? 66 : 33;
    const auto bytes = [](std::size_t floats) { return (4 * floats + 63) / 64 * 64; };
    const std::size_t routes =
        bytes(m * 4) + 3 * bytes(m * 2) + bytes(r) + 2 * bytes(4) + bytes(r * 21);
    testing::BranchMemory want;
    want.saved = routes + bytes(r * hidden) + bytes(r * 33);
    want.forward_scratch = bytes(4);
    want.inference_scratch = routes + bytes(c * 33) + (gated ? bytes(c * 66) : 0);
    want.backward_scratch = bytes(r * hidden) + bytes(m * 4) + 2 * bytes(r * 21) + bytes(m * 2) +
                            (gated ? bytes(c * 33) : 0);
    EXPECT_EQ(walk_branch(step.experts, step.pass, 21, step.beside).memory, want);
    step.routing.loads = {30, 0, 0, 1};
    EXPECT_EQ(walk_branch(step.experts, step.pass, 21, step.beside).memory, want);
    step.beside.routing = nullptr;
    EXPECT_EQ(walk_branch(step.experts, step.pass, 21, step.beside).memory, want);
  }
}

void expect_error(const std::function<void()>& body, const std::string& text) {
  try {
    body();
    ADD_FAILURE() << "nothing thrown; need: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), text);
  }
}

TEST(Experts, RefuseWithASentence) {
  const auto make = [](const ExpertsConfig& config) {
    Parameters parameters;
    const Experts experts(parameters, "moe", config, {.d_model = 4, .d_ff = 4});
  };
  expect_error([&] { make({.experts = 0}); },
               "[experts] experts is 0; need a whole number from 1 to 4096");
  expect_error([&] { make({.experts = 2, .top = 3}); },
               "[experts] top is 3; need 1 to 2, the experts");
  expect_error([&] { make({.top = 0}); }, "[experts] top is 0; need a whole number from 1 to 4096");
  expect_error([&] { make({.capacity = 0.0}); },
               "[experts] capacity is 0; need a number above 0, at most 1e6");
  expect_error([&] { make({.balance = -1.0}); },
               "[experts] balance is -1; need a number from 0 to 1000");
  Step step({.name = "", .config = {.experts = 4}, .batch = 1, .length = 18, .d = 5, .f = 7});
  EXPECT_EQ(step.experts.contrastive(), nullptr);
  for (const std::vector<std::int32_t>& loads :
       {std::vector<std::int32_t>{7, 0, 0, 0}, {5, 5, 5, 5}, {1, 1, 1}, {-1, 1, 1, 1}}) {
    step.routing.loads = loads;
    EXPECT_THROW(walk_branch(step.experts, step.pass, 5, step.beside), Error);
  }
}

TEST(Experts, KeepToTheirChoiceWhenTheyComputeAgain) {
  Step step({.name = "", .config = {.experts = 4}, .batch = 1, .length = 18, .d = 5, .f = 7});
  step.forward(nullptr);
  const std::vector<float> y = step.y;
  const Routing first = step.routing;
  step.forward_again();
  EXPECT_EQ(step.y, y);
  for (float& x : step.x) x = -x;
  step.forward_again();
  EXPECT_EQ(step.routing.chosen, first.chosen);
  EXPECT_EQ(step.routing.loads, first.loads);
  step.forward(nullptr);
  EXPECT_NE(step.routing.chosen, first.chosen);
  step.beside.routing = nullptr;
  expect_error([&] { step.forward_again(); },
               "[experts] 0 choices of the first pass for 18; need its Routing to compute again");
}

TEST(Experts, LoseOnceWhatIsComputedTwice) {
  Step step({.name = "", .config = {.experts = 4}, .batch = 1, .length = 18, .d = 5, .f = 7});
  step.forward(nullptr);
  const double once = step.routing.loss;
  EXPECT_GT(once, 0.0);
  step.forward_again();
  EXPECT_EQ(step.routing.loss, once);
  step.forward(nullptr);
  EXPECT_EQ(step.routing.loss, 2.0 * once);
}

TEST(Experts, FitIntoEveryWiring) {
  for (const Wiring wiring : {Wiring::kPostNorm, Wiring::kPreNorm, Wiring::kReversible}) {
    SCOPED_TRACE(name_of(wiring));
    Parameters parameters;
    const ExpertsConfig config{.experts = 4, .top = 2, .capacity = 1.0};
    const FeedForwardConfig each{.d_model = 12, .d_ff = 19};
    const Residual residual(std::make_unique<Experts>(parameters, "moe", config, each),
                            std::make_unique<Norm>(parameters, "norm", NormKind::kLayer, 12, 1e-5F),
                            wiring, 12, 0.1F);
    parameters.allocate();
    testing::randomize(parameters, 5);
    Routing routing;
    const std::vector<std::int32_t> lengths = {9, 4};
    Pass pass;
    pass.batch = 2;
    pass.length = 9;
    pass.lengths = lengths;
    pass.training = true;
    const Beside beside{.routing = &routing};
    const std::vector<float> start = testing::random_values(18 * 12, 2);
    std::vector<float> x = testing::random_values(18 * 12, 1);
    std::vector<float> y = start;
    std::vector<float> g = testing::random_values(18 * 12, 3);
    std::vector<float> dx(18 * 12, 0.0F);
    const auto rows = [](std::vector<float>& v) { return Matrix(v.data(), 18, 12); };
    const CostTable cost = testing::expect_dry_is_wet([&](Arena& arena) {
      const Arena::Frame frame(arena);
      if (wiring == Wiring::kReversible) {
        residual.add_to(pass, rows(x), rows(y), beside, arena);
        residual.undo(pass, {rows(x), rows(y), rows(g), rows(dx)}, beside, arena);
      } else {
        ResidualSaved saved;
        residual.forward(pass, rows(x), rows(y), &saved, beside, arena);
        residual.backward(pass, saved, rows(g), beside, arena);
      }
    });
    EXPECT_GT(cost.at("ffn").update.maccs, 0U);
    ASSERT_EQ(routing.loads.size(), 4U);
    if (wiring != Wiring::kReversible) continue;
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], start[i], 1e-5F);
  }
}

Case large() {
  return {.name = "",
          .config = {.experts = 32, .top = 2, .capacity = 1.0},
          .batch = 3,
          .length = 400,
          .d = 64,
          .f = 48,
          .lengths = {400, 13, 390}};
}

TEST(Experts, GiveTheSameBitsOnAnyNumberOfThreads) {
  std::vector<std::vector<float>> first;
  testing::for_each_thread_count([&] {
    Step step(large());
    step.run();
    const std::span<float> g = step.parameters.gradients();
    const std::vector<std::vector<float>> got = {
        step.y, step.dx, {g.begin(), g.end()}, {static_cast<float>(step.routing.loss)}};
    if (first.empty()) first = got;
    EXPECT_EQ(got, first);
  });
}

TEST(Experts, AllocateNothingAfterTheFirstStep) {
  Step step(large());
  step.run();
  const std::vector<std::int32_t> loads = step.routing.loads;
  step.x = testing::random_values(step.x.size(), 91);
  const std::size_t before = testing::allocations();
  step.run();
  EXPECT_EQ(testing::allocations(), before);
  EXPECT_NE(step.routing.loads, loads);
}

}  // namespace experts_test
}  // namespace longspan
