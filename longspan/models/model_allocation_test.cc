// After the first step nothing allocates: global new and delete are counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <string_view>

#include "longspan/base/error.h"
#include "longspan/base/parallel.h"
#include "longspan/models/model.h"
#include "longspan/testing/allocations.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace model_allocation_test {

using testing::allocations;
using testing::BatchData;
using testing::BatchShape;
using testing::ModelCase;
using testing::RefusedAllocation;

TEST(Counter, Counts) {
  const std::size_t before = allocations();
  int* volatile escapes = new int(3);  // or the compiler may leave the pair out
  delete escapes;
  EXPECT_EQ(allocations(), before + 1);
}

std::size_t allocations_of_later_steps(const ModelConfig& config, const BatchShape& shape) {
  Model model(config);
  model.allocate(1);
  const BatchData first(config, shape, 1);
  const BatchData second(config, shape, 2);
  const auto step = [&](const Batch& batch, RandomKey key) {
    model.forward(batch, key, 1.0F);
    model.backward(batch, 1.0F);
  };
  step(first.view(), 1);
  const std::size_t before = allocations();
  step(second.view(), 2);
  step(first.view(), 3);
  return allocations() - before;
}

class Allocations : public ::testing::TestWithParam<ModelCase> {};

TEST_P(Allocations, NoneAfterTheFirstStep) {
  const ModelCase& c = GetParam();
  const int usual = thread_count();
  for (const int threads : {1, 2}) {
    set_thread_count(threads);
    EXPECT_EQ(allocations_of_later_steps(c.config, c.shape), 0U) << threads << " threads";
  }
  set_thread_count(usual);
}

INSTANTIATE_TEST_SUITE_P(Cases, Allocations, ::testing::ValuesIn(testing::model_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Released, Allocations, ::testing::ValuesIn(testing::released_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Pairs, Allocations, ::testing::ValuesIn(testing::pair_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Experts, Allocations, ::testing::ValuesIn(testing::expert_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Stages, Allocations, ::testing::ValuesIn(testing::staged_cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Frozen, Allocations, ::testing::ValuesIn(testing::frozen_cases()),
                         [](const auto& instance) { return instance.param.name; });

// Wide enough that products are divided and packed.
TEST(Allocations, NoneInALargerModel) {
  ModelConfig c;
  c.layers = 2;
  c.d_model = 160;
  c.vocab = 300;
  c.max_length = 200;
  c.dropout = 0.1F;
  for (const char* attention : {"full", "flash"}) {
    c.attention = attention;
    EXPECT_EQ(allocations_of_later_steps(c, {.batch = 2, .length = 200}), 0U) << attention;
  }
}

// Memory that is refused anywhere in the first step costs that step, not the model: the next one has
// the bits of a model that was never refused any.
TEST(Allocations, ARefusalCostsTheStepAlone) {
  ModelConfig c;
  c.layers = 2;
  c.d_model = 32;
  for (const char* attention :
       {"full", "flash", "longformer:window=4", "transformer-xl", "reformer:chunk=8", "performer",
        "memory-compressed", "bigbird:block=8", "deberta", "experts"}) {
    const bool experts = std::string_view(attention) == "experts";
    c.feed_forward = experts ? "experts:experts=3" : "dense";
    c.attention = experts ? "flash" : attention;
    const BatchData data(c, {.batch = 2, .length = 40}, 1);
    const Batch batch = data.view();
    const auto step = [&](Model& model) {
      model.begin_step(0);
      const double loss = model.forward(batch, 7, 1.0F).loss;
      model.backward(batch, 1.0F);
      return loss;
    };
    Model whole(c);
    whole.allocate(1);
    const double expected = step(whole);
    std::size_t refusals = 0;
    for (;; ++refusals) {
      Model model(c);
      model.allocate(1);
      bool through = false;
      try {
        const RefusedAllocation refused(refusals);
        step(model);
        through = true;
      } catch (const std::bad_alloc&) {
      } catch (const SystemError&) {
      }
      std::ranges::fill(model.parameters().gradients(), 0.0F);
      ASSERT_EQ(step(model), expected) << attention << ", allocation " << refusals;
      ASSERT_TRUE(
          std::ranges::equal(model.parameters().gradients(), whole.parameters().gradients()))
          << attention << ", allocation " << refusals;
      if (through) break;
    }
    EXPECT_GE(refusals, 3U) << attention;
  }
}

TEST(Allocations, NoneWhileDecoding) {
  for (const char* attention :
       {"flash", "transformer-xl", "reformer:chunk=5", "longformer:window=6,global=3"}) {
    ModelConfig c;
    c.attention = attention;
    c.positions = PositionKind::kRotary;
    Model model(c);
    model.allocate(1);
    Arena memory(model.cache_bytes(1, 40));
    std::vector<DecodeCache> caches = model.make_caches(1, 40, memory);
    const std::vector<std::int32_t> token = {3};
    const Batch one{.batch = 1, .length = 1, .tokens = token};
    model.decode(one, caches);
    const std::size_t before = allocations();
    for (int i = 1; i < 40; ++i) model.decode(one, caches);
    EXPECT_EQ(allocations() - before, 0U) << attention;
  }
}

}  // namespace model_allocation_test
}  // namespace longspan
