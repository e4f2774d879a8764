#include "longspan/training/training_run.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "longspan/testing/temporary_directory.h"
#include "longspan/training/sampler.h"
#include "longspan/training/writer.h"

namespace longspan {
namespace training_run_test {

using testing::message_of;
using testing::read_bytes;
using testing::TemporaryDirectory;

TrainingOptions small(const std::string& task, const std::filesystem::path& out) {
  TrainingOptions o;
  o.out = out.string();
  o.run.data.task = task;
  o.run.data.batch = 16;
  o.run.options = {{"length", "6"}, {"symbols", "5"}, {"held_out", "20"}};
  o.run.model.layers = 1;
  o.run.model.d_model = 32;
  o.run.model.heads = 2;
  o.run.model.positions = PositionKind::kRotary;
  o.run.train.schedule.peak = 3e-3F;
  o.steps = 12;
  o.eval_every = 4;
  o.save_every = 5;
  return o;
}

struct Heard final : TrainingObserver {
  bool stops() override { return steps >= stop_after; }
  void stepped(const StepReport& /*report*/, double /*rate*/) override { ++steps; }
  void judged(const JudgedStep& at) override { judged_at.push_back(at.step); }
  void aligned(const AlignedStep& at) override { aligned_at.push_back(at.step); }

  std::size_t stop_after = 1000;
  std::size_t steps = 0;
  std::vector<std::uint64_t> judged_at;
  std::vector<std::uint64_t> aligned_at;
};

std::string weights(const std::filesystem::path& out) {
  return read_bytes(out / "model.safetensors");
}

TEST(TrainingRun, SaysHowItGoes) {
  const TemporaryDirectory scratch;
  TrainingOptions o = small("copy", scratch / "run");
  o.align_every = 6;
  TrainingRun run(o);
  EXPECT_EQ(run.config().model.vocab, 6U);
  EXPECT_EQ(run.config().model.max_length, 6U);
  EXPECT_GT(run.step_work().maccs, 0U);
  Heard heard;
  const TrainingResult result = run.run(heard);
  EXPECT_EQ(heard.steps, 12U);
  EXPECT_EQ(heard.judged_at, (std::vector<std::uint64_t>{4, 8, 12}));
  EXPECT_EQ(heard.aligned_at, (std::vector<std::uint64_t>{0, 6}));
  EXPECT_EQ(result.last.step, 12U);
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(result.judged.size(), 3U);
  EXPECT_EQ(load_run(o.out).step, 12U);
}

TEST(TrainingRun, InterruptedAndResumedItEndsWithTheSameBits) {
  for (const std::string task : {"copy", "reverse"}) {
    const TemporaryDirectory scratch;
    Heard heard;
    TrainingRun(small(task, scratch / "whole")).run(heard);
    TrainingOptions o = small(task, scratch / "parts");
    Heard impatient;
    impatient.stop_after = 7;
    EXPECT_TRUE(TrainingRun(o).run(impatient).interrupted);
    o.resume = true;
    TrainingRun rest(o);
    EXPECT_EQ(rest.first_step(), 7U);
    rest.run(heard);
    EXPECT_EQ(weights(scratch / "parts"), weights(scratch / "whole")) << task;
  }
}

// Stopped within an evaluation, it does that one again before it goes on.
TEST(TrainingRun, AnEvaluationThatIsStoppedIsNotLost) {
  struct Impatient final : TrainingObserver {
    bool stops() override { return stepped_ && ++asked_ > 1; }
    void stepped(const StepReport& report, double /*rate*/) override {
      stepped_ = report.step == 4;
    }
    bool stepped_ = false;
    int asked_ = 0;
  };
  const TemporaryDirectory scratch;
  Heard heard;
  TrainingOptions whole = small("copy", scratch / "whole");
  whole.keep_best = true;
  TrainingRun(whole).run(heard);
  TrainingOptions o = small("copy", scratch / "parts");
  o.keep_best = true;
  Impatient impatient;
  const TrainingResult stopped = TrainingRun(o).run(impatient);
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_TRUE(stopped.judged.empty());
  EXPECT_EQ(load_run(o.out).step, 4U);
  o.resume = true;
  Heard rest;
  TrainingRun(o).run(rest);
  EXPECT_EQ(rest.judged_at, (std::vector<std::uint64_t>{4, 8, 12}));
  EXPECT_EQ(weights(scratch / "parts"), weights(scratch / "whole"));
  EXPECT_EQ(weights(scratch / "parts" / "best"), weights(scratch / "whole" / "best"));
}

TEST(TrainingRun, OneAtATimeTrainsInADirectory) {
  const TemporaryDirectory scratch;
  TrainingOptions o = small("copy", scratch / "run");
  TrainingRun first(o);
  struct Second final : TrainingObserver {
    explicit Second(const TrainingOptions& given) : options(given) {}
    void stepped(const StepReport& /*report*/, double /*rate*/) override {
      sentence = message_of([&] { TrainingRun run(options); });
    }
    TrainingOptions options;
    std::string sentence;
  };
  for (const bool resumes : {false, true}) {
    o.overwrite = !resumes;
    o.resume = resumes;
    Second second(o);
    o.steps += 1;
    if (resumes) {
      TrainingRun(o).run(second);
    } else {
      first.run(second);
    }
    EXPECT_NE(second.sentence.find(" is being trained by process "), std::string::npos)
        << second.sentence;
  }
  EXPECT_FALSE(std::filesystem::exists(scratch / "run" / "training.lock"));
}

TEST(TrainingRun, StopsWhenNothingImprovesAndKeepsTheBest) {
  const TemporaryDirectory scratch;
  TrainingOptions o = small("copy", scratch / "run");
  o.steps = 400;
  o.eval_every = 1;
  o.patience = 2;
  o.keep_best = true;
  o.run.train.schedule.peak = 0.5F;  // so large that the loss soon rises
  o.run.train.schedule.warmup = 0;
  TrainingRun run(o);
  Heard heard;
  const TrainingResult result = run.run(heard);
  EXPECT_TRUE(result.out_of_patience);
  EXPECT_LT(result.last.step, 400U);
  EXPECT_EQ(result.last.step, result.patience.best_step + 2);
  LoadedRun best = load_run(scratch / "run" / "best");
  EXPECT_EQ(best.step, result.patience.best_step);
  const auto task = best.config.make_task();
  EXPECT_EQ(evaluate(*best.model, *task, Split::kValidation, {.batch = 16}).loss(),
            *result.patience.best);
  // Gone on with, it stays stopped until it may wait longer.
  o.resume = true;
  Heard none;
  EXPECT_TRUE(TrainingRun(o).run(none).out_of_patience);
  EXPECT_EQ(none.steps, 0U);
}

TEST(TrainingRun, RefusesWhatDoesNotFit) {
  const TemporaryDirectory scratch;
  TrainingOptions o = small("copy", scratch / "run");
  Heard heard;
  TrainingRun(o).run(heard);
  EXPECT_NE(message_of([&] { TrainingRun run(o); }).find("already holds a checkpoint"),
            std::string::npos);
  TrainingOptions other = small("reverse", scratch / "run");
  other.resume = true;
  EXPECT_NE(message_of([&] { TrainingRun run(other); }).find("was trained on copy"),
            std::string::npos);
  TrainingOptions text = small("text", scratch / "text");
  text.run.options.clear();
  EXPECT_EQ(message_of([&] { TrainingRun run(text); }),
            "[train] no data; need --data FILE, or a directory of images");
  o.out = (scratch / "run" / "config.json").string();
  EXPECT_EQ(message_of([&] { TrainingRun run(o); }),
            "[train] " + o.out + " is a file; need a directory");
  o.out = (scratch / "none").string();
  o.run.data.batch = 0;
  EXPECT_NE(message_of([&] { TrainingRun run(o); }).find("batch 0"), std::string::npos);
  o.run.data.batch = 2;
  o.eval_every = 0;
  o.patience = 1;
  EXPECT_NE(message_of([&] { TrainingRun run(o); }).find("--eval-every"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(scratch / "none"));
}

// Enough training to answer held-out sequences without a fault.
TEST(Writer, AnEncoderAndADecoderAnswer) {
  const TemporaryDirectory scratch;
  TrainingOptions o = small("reverse", scratch / "run");
  o.run.options["length"] = "3";
  o.steps = 500;
  o.eval_every = 0;
  Heard heard;
  TrainingRun(o).run(heard);
  LoadedRun run = load_run(o.out);
  const auto task = run.config.make_task();
  const Judgement q = evaluate(*run.model, *task, Split::kValidation, {.batch = 7});
  EXPECT_EQ(q.count, 20U);
  EXPECT_GT(q.metrics[1].value, 0.9) << q.line;
  Writer writer(*run.model, task->encode("4 1 5"), task->boundary());
  Sampler sampler({.temperature = 0.0});
  std::vector<std::int32_t> answer;
  while (!writer.full()) {
    answer.push_back(sampler.draw(writer.scores(), answer.size()));
    writer.append(answer.back());
  }
  EXPECT_EQ(answer, (std::vector<std::int32_t>{5, 1, 4, 0}));
}

}  // namespace training_run_test
}  // namespace longspan
