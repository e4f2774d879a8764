// Batches of tasks without their padding: the same loss, gradients and scores as with it.
#include "longspan/training/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "longspan/learning/rule.h"
#include "longspan/tasks/registry.h"
#include "longspan/testing/check_layer.h"
#include "longspan/training/evaluate.h"
#include "longspan/training/training_run.h"

namespace longspan {
namespace packing_test {

struct PaddedTask {
  const char* name;
  TaskOptions options;
};

// Every task whose batches have padding.
const std::vector<PaddedTask> kTasks = {
    {"listops", {{"length", "60"}, {"above", "5"}, {"examples", "40"}, {"held_out", "20"}}},
    {"retrieval", {{"length", "24"}, {"topics", "3"}, {"examples", "40"}, {"held_out", "20"}}},
    {"translate", {{"length", "12"}, {"grammar", "sort"}, {"examples", "40"}, {"held_out", "20"}}},
    {"events", {{"length", "40"}, {"window", "20"}, {"examples", "40"}, {"held_out", "20"}}},
};

std::unique_ptr<Task> opened(const PaddedTask& padded) {
  auto task = find_task(padded.name).make(padded.options);
  task->open();
  return task;
}

std::unique_ptr<Model> model_for(const Task& task, const std::string& attention) {
  ModelConfig c;
  fit(task.needs(), 0, c);
  c.layers = c.decoder_layers = 2;
  if (c.family != Family::kEncoderDecoder) c.decoder_layers = 0;
  c.d_model = 16;
  c.heads = 2;
  c.attention = attention;
  auto model = std::make_unique<Model>(c);
  model->allocate(3);
  testing::randomize(model->parameters(), 3);
  return model;
}

// float32 sums in another order.
void expect_near(std::span<const float> got, std::span<const float> want) {
  ASSERT_EQ(got.size(), want.size());
  float largest = 0.0F;
  for (const float w : want) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 3e-5F * largest) << i;
}

TEST(Packing, LearnsWhatPaddedBatchesTeach) {
  for (const PaddedTask& padded : kTasks) {
    SCOPED_TRACE(padded.name);
    const auto task = opened(padded);
    const auto model = model_for(*task, "flash");
    BatchMemory memory;
    const Batch batch = task->training_batch(1, 2, 8, memory);
    Packing packing;
    const Batch packed = packing.pack(*model, batch);
    ASSERT_TRUE(packed.packed);
    EXPECT_LT(packed.rows() + packed.source_rows(), batch.rows() + batch.source_rows());
    const auto gradients = model->parameters().gradients();
    const auto learn = [&](const Batch& from) {
      std::ranges::fill(gradients, 0.0F);
      const LossSum sum = model->forward(from, 1, 0.01F);
      model->backward(from, 0.01F);
      return std::pair(sum, std::vector<float>(gradients.begin(), gradients.end()));
    };
    const auto [want, want_gradients] = learn(batch);
    const auto [got, got_gradients] = learn(packed);
    EXPECT_EQ(got.counted, want.counted);
    EXPECT_NEAR(got.loss, want.loss, 1e-5 * std::abs(want.loss));
    expect_near(got_gradients, want_gradients);
  }
}

// Rules that compare two passes spread the error over padding, from which matrices learn.
TEST(Packing, RulesThatPackLearnTheSame) {
  const auto task = opened(kTasks[0]);
  BatchMemory memory;
  const Batch batch = task->training_batch(1, 2, 8, memory);
  for (const RuleEntry& entry : rules()) {
    SCOPED_TRACE(entry.name);
    const auto model = model_for(*task, "flash");
    const auto rule = make_rule(entry.name, *model);
    const auto gradients = model->parameters().gradients();
    const auto learn = [&](const Batch& from) {
      std::ranges::fill(gradients, 0.0F);
      rule->accumulate(from, 1, 0.01F);
      return std::vector<float>(gradients.begin(), gradients.end());
    };
    Packing packing;
    const auto want = learn(batch);
    const auto got = learn(packing.pack(*model, batch));
    if (rule->packs()) {
      expect_near(got, want);
      continue;
    }
    float largest = 0.0F;
    float apart = 0.0F;
    for (std::size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, std::abs(want[i]));
      apart = std::max(apart, std::abs(got[i] - want[i]));
    }
    EXPECT_GT(apart, 1e-3F * largest);
  }
}

TEST(Packing, JudgesWhatPaddedBatchesShow) {
  for (const PaddedTask& padded : kTasks) {
    SCOPED_TRACE(padded.name);
    const auto task = opened(padded);
    const auto model = model_for(*task, "flash");
    std::vector<std::vector<float>> seen;
    const auto sees = [&](const Batch& batch, ConstMatrix scores, std::size_t /*first*/) {
      EXPECT_FALSE(batch.packed);
      seen.emplace_back(scores.data, scores.data + scores.size());
    };
    const Split split = task->held_out();
    const Judgement judged = evaluate(*model, *task, split, {.batch = 4, .sees = sees});
    BatchMemory memory;
    Tally tally;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const std::size_t left = task->examples(split) - 4 * i;
      const Batch batch =
          task->batch(split, {.first = 4 * i, .count = std::min<std::size_t>(4, left)}, memory);
      const ConstMatrix want = model->logits(batch);
      ASSERT_EQ(seen[i].size(), want.size());
      for (std::size_t r = 0; r < want.rows; ++r) {
        if (batch.targets[r] == kIgnoredTarget) continue;
        expect_near(std::span(seen[i]).subspan(r * want.cols, want.cols), want.row(r));
      }
      const LossSum sum = model->loss_of(want, batch);
      tally.loss += sum.loss;
      tally.counted += sum.counted;
    }
    EXPECT_GT(tally.counted, 10U);
    EXPECT_NEAR(judged.loss(), tally.mean_loss(), 1e-5 * std::abs(tally.mean_loss()));
  }
}

// What would give something else stays as the task gave it.
TEST(Packing, LeavesAloneWhatReadsPadding) {
  const auto task = opened(kTasks[0]);
  BatchMemory memory;
  const Batch batch = task->training_batch(1, 2, 8, memory);
  for (const char* attention : {"fnet", "bigbird:padded=1", "reformer:padding=hash"}) {
    Packing packing;
    EXPECT_FALSE(packing.pack(*model_for(*task, attention), batch).packed) << attention;
  }
  Packing packing;
  Batch whole = batch;
  whole.lengths = {};
  EXPECT_FALSE(packing.pack(*model_for(*task, "flash"), whole).packed);
  // The loss of the published code judges padding.
  const PaddedTask thp{
      "events", {{"length", "40"}, {"examples", "40"}, {"held_out", "20"}, {"compat", "thp"}}};
  const auto published = opened(thp);
  EXPECT_FALSE(
      packing.pack(*model_for(*published, "flash"), published->training_batch(1, 2, 8, memory))
          .packed);
}

// A target of padding is one all the same.
TEST(Packing, LosesNoTarget) {
  const auto task = opened(kTasks[3]);
  const auto model = model_for(*task, "flash");
  BatchMemory memory;
  const Batch batch = task->training_batch(1, 2, 8, memory);
  const auto shorter =
      static_cast<std::size_t>(std::ranges::min_element(batch.lengths) - batch.lengths.begin());
  memory.targets[(shorter + 1) * batch.length - 1] = 0;
  Packing packing;
  EXPECT_FALSE(packing.pack(*model, batch).packed);
}

}  // namespace packing_test
}  // namespace longspan
