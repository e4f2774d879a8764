// The answer is within the budget and the next is not; what is asked of every candidate is what the
// model itself predicts; and where a search could go wrong it is compared with asking everything.
#include "longspan/cost/solve.h"

#include <gtest/gtest.h>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/models/presets.h"

namespace longspan {
namespace solve_test {

Workload small(const std::string& attention = "flash") {
  Workload w;
  w.model.family = Family::kEncoder;
  w.model.layers = 2;
  w.model.d_model = 16;
  w.model.heads = 2;
  w.model.vocab = 11;
  w.model.max_length = 1;
  w.model.positions = PositionKind::kSinusoidal;
  w.model.attention = attention;
  w.batch = 2;
  return w;
}

SolveTerms adam() { return {.element = element_type("fp32"), .optimizer = OptimizerKind::kAdam}; }

// Weights, gradients, two averages and the arena, asked of the model directly.
Integer training_bytes(const Workload& w) {
  const Model model(w.model);
  const auto trained = static_cast<Integer>(model.parameters().count());
  const auto total = static_cast<Integer>(model.parameters().total());
  return 4 * total + 12 * trained + static_cast<Integer>(model.training_bytes(w.shape()));
}

Integer inference_bytes(const Workload& w) {
  const Model model(w.model);
  return 4 * static_cast<Integer>(model.parameters().total()) +
         static_cast<Integer>(model.inference_bytes(w.shape()));
}

Integer training_flops(const Workload& w) {
  Integer sum = 0;
  for (const auto& [layer, cost] : Model(w.model).cost(w.shape(), true)) {
    sum += static_cast<Integer>(cost.forward.flops() + cost.backward.flops() + cost.update.flops());
  }
  return sum;
}

void expect_boundary(const SolveQuestion& q, const SolveBudget& budget) {
  const SolveAnswer answer = largest_within(q, budget);
  SCOPED_TRACE(fmt::format("{} {} {}", name_of(q.what), answer.value, q.workload.model.attention));
  ASSERT_TRUE(answer.next);
  const std::size_t k = answer.value / q.value(1);
  EXPECT_EQ(answer.next_value, q.value(k + 1));
  const auto bytes = [&](const Workload& w) {
    return q.terms.inference ? inference_bytes(w) : training_bytes(w);
  };
  const Workload next = q.candidate(k + 1);
  EXPECT_EQ(answer.workload.model, q.candidate(k).model);
  EXPECT_TRUE(answer.need.bytes == bytes(answer.workload));
  EXPECT_TRUE(answer.next->bytes == bytes(next));
  bool over = false;
  if (budget.bytes) {
    EXPECT_TRUE(answer.need.bytes <= *budget.bytes);
    over = over || answer.next->bytes > *budget.bytes;
  }
  if (budget.flops) {
    EXPECT_TRUE(answer.need.work.flops == training_flops(answer.workload));
    EXPECT_TRUE(answer.next->work.flops == training_flops(next));
    EXPECT_TRUE(answer.need.work.flops <= *budget.flops);
    over = over || answer.next->work.flops > *budget.flops;
  }
  EXPECT_TRUE(over);
}

// Where blocks make memory go down with length, the longest of all is the answer.
TEST(Solve, EveryMechanismAsIfEveryLengthHadBeenAsked) {
  for (const Mechanism& mechanism : mechanisms()) {
    SCOPED_TRACE(mechanism.name);
    SolveQuestion q{.workload = small(std::string(mechanism.name)), .terms = adam()};
    std::vector<Integer> bytes(1);
    for (std::size_t n = 1; n <= 400; ++n) bytes.push_back(training_bytes(q.candidate(n)));
    for (const std::size_t at : {1U, 17U, 64U, 97U, 130U}) {
      const Integer budget = bytes[at];
      std::size_t longest = 400;
      while (bytes[longest] > budget) --longest;
      if (longest > 300) continue;  // longer ones may fit too
      EXPECT_EQ(largest_within(q, {.bytes = budget}).value, longest);
      if (longest > at || at == 1) continue;
      EXPECT_LT(largest_within(q, {.bytes = budget - 1}).value, longest);
    }
  }
}

TEST(Solve, BoundariesOfBatchWidthAndLength) {
  std::vector<Workload> models = {small(), small("full"), small("linear")};
  models[1].model.family = Family::kDecoder;
  models[1].model.checkpointing = true;
  models[2].model.frozen_layers = 1;
  models[2].model.d_ff = 43;
  Workload both = small("full");
  both.model.family = Family::kEncoderDecoder;
  both.model.decoder_layers = 3;
  both.target_length = 7;
  both.model.max_length = 64;
  both.length = 9;
  models.push_back(both);
  Workload grouped = small();
  grouped.model.family = Family::kDecoder;
  grouped.model.heads = 8;
  grouped.model.kv_heads = 2;
  grouped.model.lora_rank = 2;
  models.push_back(grouped);
  for (const Workload& w : models) {
    for (const SolveFor what : kSolveFor) {
      for (const bool inference : {false, true}) {
        SolveQuestion q{.workload = w, .what = what, .terms = adam()};
        q.terms.inference = inference;
        expect_boundary(q, {.bytes = 1'000'003});
        if (inference) continue;
        expect_boundary(q, {.flops = 100'000'007});
        expect_boundary(q, {.bytes = 2'000'003, .flops = 20'000'003});
      }
    }
  }
}

TEST(Solve, WidthKeepsHeadsAndRatios) {
  Workload w = small();
  w.model.family = Family::kDecoder;
  w.model.d_model = 4096;
  w.model.heads = 32;
  w.model.kv_heads = 8;
  w.model.d_ff = 11008;
  const SolveQuestion q{.workload = w, .what = SolveFor::kWidth, .terms = adam()};
  const Workload four = q.candidate(4);
  EXPECT_EQ(four.model, w.model);
  const Workload one = q.candidate(1);
  EXPECT_EQ(one.model.d_model, 1024U);
  EXPECT_EQ(one.model.heads, 8U);
  EXPECT_EQ(one.model.kv_heads, 8U);
  EXPECT_EQ(one.model.d_ff, 2752U);
}

TEST(Solve, ARunIsItsTokens) {
  SolveQuestion q{.workload = small(), .what = SolveFor::kWidth, .terms = adam()};
  q.workload.length = 8;
  q.terms.tokens = 16 * 1000;  // a thousand steps of 2 × 8
  q.workload.model.max_length = 8;
  const SolveAnswer run = largest_within(q, {.flops = 5'000'000'000});
  q.terms.tokens.reset();
  const SolveAnswer step = largest_within(q, {.flops = 5'000'000});
  EXPECT_EQ(run.value, step.value);
  EXPECT_TRUE(run.need.work.flops == 1000 * step.need.work.flops);
}

TEST(Solve, StopsWhereThePositionsDo) {
  SolveQuestion q{.workload = small(), .most_positions = 33, .terms = adam()};
  const SolveAnswer answer = largest_within(q, {.bytes = Integer{1} << 40});
  EXPECT_EQ(answer.value, 33U);
  EXPECT_FALSE(answer.next);
  EXPECT_EQ(answer.limit, "the model has 33 positions");
}

TEST(Solve, SaysThatNothingFits) {
  const SolveQuestion q{.workload = small(), .terms = adam()};
  try {
    largest_within(q, {.bytes = 1000});
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("[cost] even 1 token needs "))
        << error.what();
  }
  EXPECT_THROW(largest_within(q, {}), Error);
  EXPECT_THROW(largest_within(q, {.flops = 10}), Error);
}

// The least length from which on, up to 3000, the first is cheaper at every length.
TEST(Solve, MechanismsCrossWhereEveryLengthSaysSo) {
  constexpr std::size_t kMost = 3000;
  const std::array<std::pair<const char*, const char*>, 5> pairs = {{{"linear", "full"},
                                                                     {"performer", "flash"},
                                                                     {"local", "full"},
                                                                     {"window", "linear"},
                                                                     {"reformer", "flash"}}};
  for (const auto& [first, second] : pairs) {
    SCOPED_TRACE(fmt::format("{} {}", first, second));
    SolveQuestion q{.workload = small(), .most_positions = kMost, .terms = adam()};
    q.workload.model.layers = 1;
    q.workload.batch = 1;
    q.workload.model.max_length = kMost;
    const auto found = compare_mechanisms(q, first, second);
    std::size_t last = 0;  // at which the first is not cheaper
    for (std::size_t n = 1; n <= found[0].last.length; ++n) {
      Workload w = q.candidate(n);
      w.model.attention = first;
      const Integer one = training_flops(w);
      w.model.attention = second;
      if (one >= training_flops(w)) last = n;
    }
    if (last == found[0].last.length) {
      EXPECT_FALSE(found[0].from);
      continue;
    }
    ASSERT_TRUE(found[0].from);
    EXPECT_EQ(found[0].from->length, last + 1);
    EXPECT_TRUE(found[0].from->first < found[0].from->second);
    EXPECT_EQ(found[0].before.has_value(), last > 0);
    if (!found[0].before) continue;
    EXPECT_TRUE(found[0].before->first >= found[0].before->second);
  }
}

TEST(Solve, AMechanismIsNotCheaperThanItself) {
  const SolveQuestion q{.workload = small(), .terms = adam()};
  for (const MechanismCrossover& c : compare_mechanisms(q, "flash", "flash")) {
    EXPECT_FALSE(c.from);
  }
  EXPECT_THROW(compare_mechanisms(q, "flash", "flsh"), Error);
}

}  // namespace solve_test
}  // namespace longspan
