#include "longspan/layers/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/layers/residual.h"
#include "longspan/testing/allocations.h"
#include "longspan/testing/check_branch.h"
#include "longspan/testing/dry_branch.h"
#include "longspan/testing/experts_step.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace experts_test {

using Case = testing::ExpertsCase;
using Step = testing::ExpertsStep;
using testing::Complex;
using testing::joined;
using testing::reference_of;
using testing::Tensor;
using testing::walk_branch;
using testing::Weights;

TEST(Experts, OneIsTheFeedForwardItself) {
  Step step({.name = "one",
             .config = {.experts = 1, .capacity = 0.0, .normalize_one = true},
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
  testing::ExpertsLoss<double> loss;
  const auto want = reference_of<double>(step.c, step.weights()).forward(loss);
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
  EXPECT_EQ(step.loss(), 0.0);
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
              t * (5 * 4 + 3) + t * 2 * 5 + (t * 4 + 2 * 4) + s * (in + 5) +
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
  EXPECT_EQ(step.loss(), 0.0);
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
  expect_error([&] { make({.capacity = -1.0}); },
               "[experts] capacity is -1; need a number from 0 to 1e6");
  expect_error([&] { make({.experts = 6, .groups = 4}); },
               "[experts] 4 groups of 6 experts; need equal ones");
  expect_error([&] { make({.experts = 6, .groups = 3, .top_groups = 4}); },
               "[experts] top_groups is 4; need 1 to 3, the groups");
  expect_error([&] { make({.experts = 6, .top = 3, .groups = 3}); },
               "[experts] 3 experts of a token in 1 groups of 2; need at least as many in them");
  expect_error([&] { make({.experts = 3, .groups = 3, .group_score = GroupScore::kTwoBest}); },
               "[experts] the two best scores of groups of 1; need 2 experts in each");
  expect_error([&] { make({.normalize = false, .normalize_one = true}); },
               "[experts] normalize_one without normalize; need both");
  expect_error([&] { make({.shared_gate = true}); },
               "[experts] a gate of no shared experts; need their width, shared");
  expect_error([&] { make({.score = RouteScore::kSigmoid, .squares = 0.1}); },
               "[experts] squares of the logarithms of sums of sigmoids; need score=softmax");
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
  const double once = step.loss();
  EXPECT_GT(once, 0.0);
  EXPECT_EQ(step.routing.loss.tally.rows, std::vector<double>{18.0});
  step.forward_again();
  EXPECT_EQ(step.loss(), once);
  EXPECT_EQ(step.routing.loss.tally.rows, std::vector<double>{18.0});
  step.clear_loss();
  EXPECT_EQ(step.loss(), 0.0);
}

TEST(Experts, FitIntoEveryWiring) {
  for (const Wiring wiring : {Wiring::kPostNorm, Wiring::kPreNorm, Wiring::kReversible}) {
    SCOPED_TRACE(name_of(wiring));
    Parameters parameters;
    const ExpertsConfig config{.experts = 4, .top = 2, .capacity = 1.0};
    const FeedForwardConfig each{.d_model = 12, .d_ff = 19};
    const Residual residual(
        std::make_unique<Experts>(parameters, "moe", config, each),
        {std::make_unique<Norm>(parameters, "norm", NormKind::kLayer, 12, 1e-5F)}, wiring, 12,
        0.1F);
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
        step.y, step.dx, {g.begin(), g.end()}, {static_cast<float>(step.loss())}};
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
