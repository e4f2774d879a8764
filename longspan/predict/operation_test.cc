// The calls that a prediction adds up are those of the model: their MACCs are what cost() says,
// phase by phase.
#include "longspan/predict/operation.h"

#include <gtest/gtest.h>

#include <array>

#include "longspan/attention/registry.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/fourier/fourier.h"
#include "longspan/predict/quantities.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace operation_test {

using testing::BatchData;
using testing::ModelCase;

std::array<std::uint64_t, kPhases> maccs_of(const std::vector<Operation>& operations) {
  std::array<std::uint64_t, kPhases> sum{};
  for (const Operation& o : operations) sum[static_cast<std::size_t>(o.phase)] += o.maccs;
  return sum;
}

void expect_all_maccs(const Model& model, const Batch& batch) {
  for (const bool training : {false, true}) {
    Cost cost;
    for (const auto& [layer, part] : model.cost(batch, training)) cost += part;
    const auto walked =
        maccs_of(training ? step_operations(model, batch, {}) : forward_operations(model, batch));
    EXPECT_EQ(walked[static_cast<std::size_t>(Phase::kForward)], cost.forward.maccs);
    EXPECT_EQ(walked[static_cast<std::size_t>(Phase::kBackward)], cost.backward.maccs);
    EXPECT_EQ(walked[static_cast<std::size_t>(Phase::kUpdate)], cost.update.maccs);
  }
}

std::vector<ModelCase> all_cases() {
  std::vector<ModelCase> cases = testing::model_cases();
  for (const ModelCase& c : testing::frozen_cases()) cases.push_back(c);
  for (const ModelCase& c : testing::perceptron_cases()) cases.push_back(c);
  for (const ModelCase& c : testing::pair_cases()) cases.push_back(c);
  return cases;
}

class WalkedModel : public ::testing::TestWithParam<ModelCase> {};

TEST_P(WalkedModel, MaccsAreTheModels) {
  const Model model(GetParam().config);
  const BatchData data(GetParam().config, GetParam().shape, 5);
  expect_all_maccs(model, data.view());
}

INSTANTIATE_TEST_SUITE_P(Cases, WalkedModel, ::testing::ValuesIn(all_cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST(WalkedModel, EveryMechanism) {
  for (const Mechanism& m : mechanisms()) {
    ModelConfig c;
    c.family = m.abilities("").causal ? "decoder" : "encoder";
    c.layers = 3;
    c.max_length = 128;
    c.attention = m.name;
    SCOPED_TRACE(m.name);
    expect_all_maccs(Model(c), {.batch = 2, .length = 128});
  }
}

// A rule beyond backpropagation is timed by its own step.
TEST(WalkedModel, OfAnotherRule) {
  ModelConfig c;
  c.layers = 3;
  c.max_length = 64;
  Model model(c);
  const Batch shape{.batch = 2, .length = 64};
  for (const char* name : {"fa", "dfa"}) {
    const auto rule = make_rule(name, model);
    Cost cost;
    for (const auto& [layer, part] : rule->cost(shape)) cost += part;
    const auto walked = maccs_of(step_operations(model, *rule, shape, {}));
    EXPECT_EQ(walked[static_cast<std::size_t>(Phase::kForward)], cost.forward.maccs) << name;
    EXPECT_EQ(walked[static_cast<std::size_t>(Phase::kBackward)], cost.backward.maccs) << name;
    EXPECT_EQ(walked[static_cast<std::size_t>(Phase::kUpdate)], cost.update.maccs) << name;
  }
}

// Its time follows the factors of the lengths, not the elements alone.
TEST(Quantities, TransformsByTheirFlops) {
  Recorder recorder;
  {
    const Recorder::Use use(recorder);
    const Dry dry;
    Arena arena = Arena::dry();
    const Matrix x(Dry::memory<float>(2 * 12 * 10).data(), 2 * 12, 10);
    fourier_mix(2, x, x, arena);
  }
  const std::vector<Operation> operations = operations_of(recorder);
  ASSERT_EQ(operations.size(), 1U);
  EXPECT_EQ(operations[0].rate, "fourier");
  EXPECT_EQ(operations[0].x, transform_quantities(240, fourier_work(2, 12, 10)));
}

TEST(Quantities, TheBusiestThreadCounts) {
  const int usual = thread_count();
  set_thread_count(1);
  const auto one = row_quantities(64, 1024);  // four pieces
  set_thread_count(3);
  const auto three = row_quantities(64, 1024);
  set_thread_count(usual);
  EXPECT_EQ(one[0], 65536.0);
  EXPECT_EQ(three[0], 65536.0 / 2) << "four pieces take two rounds on three threads";
}

// Machines are calibrated for mechanisms, not for every setting of theirs.
TEST(AttentionRate, IsTheMechanismsWhateverItsOptions) {
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    EXPECT_EQ(attention_rate("window:window=64,dilation=2", phase),
              attention_rate("window", phase));
  }
}

}  // namespace operation_test
}  // namespace longspan
