// Experts of many shapes against their definition: values, gradients, counts, memory, their loss.
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
namespace experts_cases_test {

using Case = testing::ExpertsCase;
using Step = testing::ExpertsStep;
using testing::Complex;
using testing::joined;
using testing::reference_of;
using testing::Tensor;
using testing::walk_branch;
using testing::Weights;

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
    testing::ExpertsLoss<Complex> loss;
    return joined(reference_of<Complex>(c, w).forward(loss).y, c.d);
  };
  testing::expect_branch(check);
}

TEST_P(ExpertsCases, BalanceTheirLoads) {
  Step step(GetParam());
  step.routing.weight = 3.0F;
  step.run();
  testing::ExpertsLoss<double> want_loss;
  const auto want = reference_of<double>(step.c, step.weights()).forward(want_loss);
  EXPECT_NEAR(step.loss(), want_loss.value(step.c.config), 1e-6 * std::fabs(step.loss()));
  EXPECT_EQ(want.dropped > 0, step.c.drops);
  ASSERT_EQ(step.routing.loads.size(), want.loads.size());
  for (std::size_t e = 0; e < want.loads.size(); ++e) {
    EXPECT_EQ(static_cast<std::size_t>(step.routing.loads[e]), want.loads[e]) << e;
  }
  const testing::ReferenceLoss loss = [&](const Weights& w) {
    testing::ExpertsLoss<Complex> own;
    const auto got = reference_of<Complex>(step.c, w).forward(own);
    Complex sum = 3.0 * own.value(step.c.config);
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
             .drops = true},
        // The routings of released models.
        Case{.name = "mixtral_padding_routed",
             .config = {.experts = 4,
                        .top = 2,
                        .capacity = 0.0,
                        .balance = 2.0,
                        .padding = true,
                        .balance_of = BalanceOf::kStack},
             .batch = 3,
             .length = 6,
             .d = 7,
             .f = 9,
             .activation = Activation::kSilu,
             .gated = true,
             .bias = false,
             .lengths = {6, 2, 5}},
        Case{.name = "qwen_next_gated_shared",
             .config = {.experts = 4,
                        .top = 2,
                        .capacity = 0.0,
                        .balance = 1.0,
                        .width = 5,
                        .shared = 11,
                        .shared_gate = true,
                        .balance_of = BalanceOf::kStack},
             .batch = 2,
             .length = 7,
             .d = 9,
             .f = 21,
             .activation = Activation::kSilu,
             .gated = true,
             .bias = false,
             .lengths = {7, 3}},
        Case{.name = "gpt_oss",
             .config =
                 {.experts = 5, .top = 2, .capacity = 0.0, .balance = 0.0, .router_bias = true},
             .batch = 2,
             .length = 6,
             .d = 8,
             .f = 19,
             .activation = Activation::kClamped,
             .gated = true},
        Case{.name = "one_of_all_weighs_one",
             .config = {.experts = 4,
                        .capacity = 0.0,
                        .balance = 1.0,
                        .normalize_one = true,
                        .router_bias = true},
             .batch = 2,
             .length = 6,
             .d = 8,
             .f = 9},
        Case{.name = "deepseek_v2",
             .config = {.experts = 6,
                        .top = 2,
                        .capacity = 0.0,
                        .balance = 0.5,
                        .normalize = false,
                        .scaling = 2.5,
                        .groups = 3,
                        .top_groups = 2,
                        .shared = 10},
             .batch = 2,
             .length = 9,
             .d = 8,
             .f = 7,
             .activation = Activation::kSilu,
             .gated = true,
             .bias = false},
        Case{.name = "deepseek_v3",
             .config = {.experts = 8,
                        .top = 3,
                        .capacity = 0.0,
                        .balance = 0.5,
                        .scaling = 1.5,
                        .score = RouteScore::kSigmoid,
                        .correction = true,
                        .groups = 4,
                        .top_groups = 2,
                        .group_score = GroupScore::kTwoBest,
                        .width = 6,
                        .shared = 12},
             .batch = 2,
             .length = 9,
             .d = 8,
             .f = 20,
             .activation = Activation::kSilu,
             .gated = true,
             .bias = false,
             .lengths = {9, 4}},
        Case{.name = "sigmoids_as_gates",
             .config = {.experts = 5,
                        .top = 2,
                        .capacity = 1.0,
                        .balance = 0.5,
                        .normalize = false,
                        .score = RouteScore::kSigmoid},
             .batch = 1,
             .length = 14,
             .d = 6,
             .f = 7,
             .drops = true},
        Case{.name = "switch_as_released",
             .config = {.experts = 4,
                        .balance = 1.5,
                        .places = 2,
                        .overflow = Overflow::kPass,
                        .padding = true,
                        .balance_of = BalanceOf::kSequences,
                        .squares = 0.3},
             .batch = 3,
             .length = 7,
             .d = 8,
             .f = 9,
             .activation = Activation::kRelu,
             .bias = false,
             .lengths = {7, 2, 5},
             .drops = true},
        Case{.name = "second_choices_pass_too",
             .config = {.experts = 4,
                        .top = 2,
                        .capacity = 0.5,
                        .balance = 1.5,
                        .shared = 5,
                        .overflow = Overflow::kPass,
                        .balance_of = BalanceOf::kSequences,
                        .squares = 0.3},
             .batch = 3,
             .length = 7,
             .d = 8,
             .f = 9,
             .gated = true,
             .lengths = {7, 0, 5},
             .drops = true},
        Case{.name = "two_places_of_each_sequence",
             .config = {.experts = 3,
                        .top = 2,
                        .balance = 1.5,
                        .normalize_one = true,
                        .places = 2,
                        .squares = 0.2},
             .batch = 3,
             .length = 5,
             .d = 8,
             .f = 9,
             .lengths = {5, 1, 4},
             .drops = true}),
    [](const auto& instance) { return instance.param.name; });

}  // namespace experts_cases_test
}  // namespace longspan
