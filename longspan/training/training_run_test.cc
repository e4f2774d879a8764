#include "longspan/training/training_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "longspan/io/checkpoint.h"
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
  if (task == "recall") {
    o.run.options = {{"length", "16"}, {"pairs", "2"}, {"symbols", "12"}, {"held_out", "20"}};
  } else if (task == "translate") {
    o.run.options = {{"length", "6"}, {"grammar", "sort"}, {"examples", "40"}, {"held_out", "20"}};
  } else if (task == "retrieval") {
    o.run.options = {{"length", "24"}, {"topics", "3"}, {"examples", "40"}, {"held_out", "20"}};
  } else if (task == "listops") {
    o.run.options = {{"length", "60"}, {"above", "5"}, {"examples", "40"}, {"held_out", "20"}};
  }
  o.run.model.layers = 1;
  o.run.model.d_model = 32;
  o.run.model.heads = 2;
  o.run.model.positions = PositionKind::kRotary;
  o.run.train.schedule.peak = 3e-3F;
  o.run.course.steps = 12;
  o.run.course.eval_every = 4;
  o.run.course.save_every = 5;
  return o;
}

struct Heard final : TrainingObserver {
  bool stops() override { return steps >= stop_after; }
  void stepped(const StepReport& /*report*/, double /*per_second*/) override { ++steps; }
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
  o.run.course.align_every = 6;
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
  for (const std::string task :
       {"copy", "recall", "reverse", "listops", "translate", "retrieval"}) {
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

// Said before the first step, not at the first validation.
TEST(TrainingRun, NeedsExamplesToJudgeBy) {
  const TemporaryDirectory scratch;
  const std::string data = (scratch / "few.tsv").string();
  testing::write_bytes(data, "a\tx\nb\ty\n");
  TrainingOptions o = small("text-class", scratch / "run");
  o.run.options = {{"data", data}, {"length", "4"}};
  EXPECT_EQ(testing::message_of([&] { TrainingRun run(o); }),
            "[train] " + data +
                " has no examples that are held out to judge by; need more of them, or "
                "--eval-every 0");
  o.run.course.eval_every = 0;
  Heard heard;
  EXPECT_EQ(TrainingRun(o).run(heard).saved, 12U);
}

TEST(TrainingRun, EndsWhenItsTimeIsOver) {
  const TemporaryDirectory scratch;
  TrainingOptions o = small("copy", scratch / "parts");
  o.seconds = 1e-9;
  Heard heard;
  const TrainingResult first = TrainingRun(o).run(heard);
  EXPECT_TRUE(first.out_of_time);
  EXPECT_FALSE(first.interrupted);
  EXPECT_EQ(first.saved, 1U) << "one step at least";
  o.resume = true;
  for (std::uint64_t step = 2; step < 12; ++step) EXPECT_EQ(TrainingRun(o).run(heard).saved, step);
  EXPECT_FALSE(TrainingRun(o).run(heard).out_of_time) << "the last step was the last in any case";
  TrainingRun(small("copy", scratch / "whole")).run(heard);
  EXPECT_EQ(weights(scratch / "parts"), weights(scratch / "whole"));
}

// Stopped between the batches of a step, it gives the step up and does it again from its start.
TEST(TrainingRun, AStepIsStoppedBetweenItsBatches) {
  struct Impatient final : TrainingObserver {
    bool stops() override { return steps_ == 5 && ++asked_ > 2; }
    void stepped(const StepReport& /*report*/, double /*rate*/) override { ++steps_; }
    int steps_ = 0;
    int asked_ = 0;  // within the sixth step: before it, after its first batch, after its second
  };
  const TemporaryDirectory scratch;
  const auto of_four_batches = [&](const char* name) {
    TrainingOptions o = small("copy", scratch / name);
    o.run.data.batch = 4;
    o.run.data.batches_per_update = 4;
    return o;
  };
  Heard heard;
  TrainingRun(of_four_batches("whole")).run(heard);
  TrainingOptions o = of_four_batches("parts");
  Impatient impatient;
  const TrainingResult stopped = TrainingRun(o).run(impatient);
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_EQ(impatient.asked_, 3) << "the other batches are not waited for";
  EXPECT_EQ(load_run(o.out).step, 5U);
  o.resume = true;
  TrainingRun(o).run(heard);
  EXPECT_EQ(weights(scratch / "parts"), weights(scratch / "whole"));
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
  whole.run.course.keep_best = true;
  TrainingRun(whole).run(heard);
  TrainingOptions o = small("copy", scratch / "parts");
  o.run.course.keep_best = true;
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

// The same options without what begins a run.
TrainingOptions resumed(const std::filesystem::path& out) {
  TrainingOptions o;
  o.out = out.string();
  o.run.data.task = "copy";
  o.resume = true;
  return o;
}

TEST(TrainingRun, GoesOnToItsOwnTarget) {
  const TemporaryDirectory scratch;
  Heard heard;
  TrainingRun(small("copy", scratch / "whole")).run(heard);
  Heard impatient;
  impatient.stop_after = 7;
  TrainingRun(small("copy", scratch / "parts")).run(impatient);
  TrainingRun rest(resumed(scratch / "parts"));
  EXPECT_EQ(rest.steps(), 12U);
  EXPECT_EQ(rest.config().course.eval_every, 4U);
  EXPECT_FALSE(rest.was_done());
  EXPECT_TRUE(rest.changes().empty());
  rest.run(heard);
  EXPECT_EQ(weights(scratch / "parts"), weights(scratch / "whole"));

  TrainingRun done(resumed(scratch / "parts"));
  EXPECT_TRUE(done.was_done());
  Heard nothing;
  EXPECT_EQ(done.run(nothing).saved, 12U);
  EXPECT_EQ(nothing.steps, 0U);
  EXPECT_EQ(weights(scratch / "parts"), weights(scratch / "whole"));
}

TEST(TrainingRun, OfVersionOneGoesOnForItsSchedule) {
  const TemporaryDirectory scratch;
  Heard impatient;
  impatient.stop_after = 7;
  TrainingRun(small("copy", scratch / "run")).run(impatient);
  {
    const Checkpoint checkpoint(scratch / "run");
    nlohmann::json config = checkpoint.config();
    config.erase("course");
    config["data"].erase("data_path");
    const LoadedRun run = load_run(scratch / "run");
    Model model(run.config.model);
    model.allocate(1);
    Trainer trainer(model, run.config.train);
    Patience patience;
    restore(scratch / "run", model, trainer, patience);
    CheckpointState state;
    for (const Parameter& p : model.parameters().all()) {
      state.weights.push_back({p.name, p.shape(), p.value});
    }
    for (const auto& block : trainer.optimizer().state()) state.optimizer.emplace_back(block);
    state.metadata = checkpoint.metadata();
    save_checkpoint(scratch / "old", config, state);
  }
  TrainingOptions o = resumed(scratch / "old");
  o.run.course.eval_every = 4;
  o.asked = {{"course/eval_every", "--eval-every"}};
  TrainingRun old(o);
  EXPECT_EQ(old.first_step(), 7U);
  EXPECT_EQ(old.steps(), 12U);
  EXPECT_TRUE(old.changes().empty()) << "nobody knows what it was before";
  Heard heard;
  EXPECT_EQ(old.run(heard).saved, 12U);
  EXPECT_EQ(heard.judged_at, (std::vector<std::uint64_t>{8, 12}));
}

TEST(TrainingRun, SaysWhatItChangesAndRefusesWhatItCannot) {
  const TemporaryDirectory scratch;
  Heard heard;
  TrainingOptions begun = small("copy", scratch / "run");
  begun.run.train.schedule.floor = 1.0F;  // more than the peak: unless typed it becomes the peak
  TrainingRun(begun).run(heard);
  TrainingOptions o = begun;
  o.resume = true;
  o.asked = {{"model/heads", "--heads"},
             {"data/length", "--length"},
             {"data/batch", "--batch"},
             {"training/schedule_steps", "--schedule-steps"},
             {"course/steps", "--steps"}};
  EXPECT_TRUE(TrainingRun(o).changes().empty()) << "the command that began it goes on with it";

  o.run.course.steps = 14;
  o.run.train.schedule.peak = 1e-3F;
  o.asked["training/learning_rate"] = "--lr";
  o.asked.erase("training/schedule_steps");
  TrainingRun run(o);
  ASSERT_EQ(run.changes().size(), 2U);
  EXPECT_EQ(run.changes()[0].name, "--steps");
  EXPECT_EQ(run.changes()[0].before, "12");
  EXPECT_EQ(run.changes()[0].after, "14");
  EXPECT_EQ(run.changes()[1].name, "--lr");
  EXPECT_EQ(run.changes()[1].before, "0.003");
  EXPECT_EQ(run.config().train.schedule.total, 12U) << "the schedule ends where it did";
  EXPECT_EQ(run.config().train.schedule.floor, 1e-3F) << "at most the peak";
  EXPECT_EQ(run.run(heard).saved, 14U);
  EXPECT_EQ(load_run(o.out).config.course.steps, 14U);

  const auto refused = [&](auto change, const std::string& path, const std::string& sentence) {
    TrainingOptions other = o;
    change(other.run);
    other.asked[path] = "--it";
    const std::string message = message_of([&] { TrainingRun again(other); });
    EXPECT_EQ(message, "[train] --it " + sentence) << path;
  };
  const std::string end = " and cannot change that; leave it out, or begin another run";
  refused([](RunConfig& r) { r.model.heads = 4; }, "model/heads",
          "4 on resuming " + o.out + ", which has 2" + end);
  refused([](RunConfig& r) { r.model.attention = "full"; }, "model/attention",
          "full on resuming " + o.out + ", which has flash" + end);
  refused([](RunConfig& r) { r.options["length"] = "8"; }, "data/length",
          "8 on resuming " + o.out + ", which has 6" + end);
  refused([](RunConfig& r) { r.data.batch = 3; }, "data/batch",
          "3 on resuming " + o.out + ", which has 16" + end);
  refused([](RunConfig& r) { r.train.seed = 5; }, "training/seed",
          "5 on resuming " + o.out + ", which has 1337" + end);
  refused([](RunConfig& r) { r.train.optimizer.beta1 = 0.5; }, "training/beta1",
          "0.5 on resuming " + o.out + ", which has 0.9" + end);
}

TEST(TrainingRun, ForgetsTheBestOfTheRunThatItReplaces) {
  const TemporaryDirectory scratch;
  Heard heard;
  TrainingOptions o = small("copy", scratch / "run");
  o.run.course.eval_every = 4;
  o.run.course.keep_best = true;
  TrainingRun(o).run(heard);
  const auto best = scratch / "run" / "best";
  EXPECT_TRUE(checkpoint_exists(best));
  o.overwrite = true;
  TrainingRun(o).run(heard);
  EXPECT_TRUE(checkpoint_exists(best)) << "its own";
  o.run.course.keep_best = false;
  TrainingRun(o).run(heard);
  EXPECT_FALSE(std::filesystem::exists(best));
  EXPECT_FALSE(std::filesystem::exists(scratch / "run" / "best.replaced"));
}

TEST(TrainingRun, RefusesWhatCannotComeOfIt) {
  const TemporaryDirectory scratch;
  const auto complaint = [&](const TrainingOptions& o) {
    return testing::message_of([&] { TrainingRun run(o); });
  };
  TrainingOptions floor = small("copy", scratch / "run");
  floor.run.train.schedule.floor = 1.0F;
  floor.asked = {{"training/learning_rate_floor", "--lr-floor"}};
  EXPECT_EQ(complaint(floor), "[train] --lr-floor 1 above --lr 0.003; need at most that");
  TrainingOptions seldom = small("copy", scratch / "run");
  seldom.run.course.eval_every = 500;
  seldom.run.course.patience = 1;
  EXPECT_THAT(complaint(seldom), ::testing::HasSubstr("need --eval-every of at most 12"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "run"));
}

TEST(TrainingRun, KeepsTheLastGoodCheckpointWhenItDiverges) {
  const TemporaryDirectory scratch;
  TrainingOptions o = small("copy", scratch / "run");
  o.run.train.optimizer.kind = OptimizerKind::kSgd;
  o.run.train.optimizer.weight_decay = 1e3F;
  o.run.train.schedule = {.kind = "constant", .peak = 1e3F, .floor = 0.0F, .warmup = 0};
  o.run.train.clip = 0.0F;
  o.run.course.save_every = 1;
  o.run.course.eval_every = 0;
  o.run.course.steps = 100;
  Heard heard;
  const TrainingResult result = TrainingRun(o).run(heard);
  ASSERT_TRUE(result.divergence);
  EXPECT_LT(result.divergence->step, 20U);
  EXPECT_FALSE(result.divergence->layer.empty());
  EXPECT_LT(result.saved, result.divergence->step);
  LoadedRun kept = load_run(o.out);
  EXPECT_EQ(kept.step, result.saved);
  EXPECT_FALSE(diverged_weights(*kept.model, 0));
  // The next step's loss was finite, or these weights would not have been saved.
  const auto task = kept.config.make_task();
  BatchMemory memory;
  const Batch next = task->training_batch(o.run.train.seed, kept.step, o.run.data.batch, memory);
  EXPECT_TRUE(std::isfinite(kept.model->evaluate(next).loss));
  EXPECT_FALSE(std::filesystem::exists(scratch / "run" / "training.lock"));
}

TEST(TrainingRun, LeavesModelsOfOthersAlone) {
  const TemporaryDirectory scratch;
  std::filesystem::create_directory(scratch / "theirs");
  testing::write_bytes(scratch / "theirs" / "config.json", R"({"model_type": "llama"})");
  TrainingOptions o = small("copy", scratch / "theirs");
  o.overwrite = true;
  EXPECT_EQ(message_of([&] { TrainingRun run(o); }),
            "[train] " + o.out +
                " has a config.json of another program; need another place in "
                "--out");
  EXPECT_EQ(message_of([&] { load_run(o.out); }),
            "[checkpoint] " + o.out +
                " has a model of another program; need a directory that "
                "longspan train wrote");
  EXPECT_EQ(message_of([&] { load_run(""); }),
            "[checkpoint] the directory has no name; need a trained model");
  o.out = "";
  EXPECT_EQ(message_of([&] { TrainingRun run(o); }), "[train] --out has no name; need a directory");
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
    o.run.course.steps += 1;
    o.asked = {{"course/steps", "--steps"}};
    if (resumes) {
      TrainingRun(o).run(second);
    } else {
      first.run(second);
    }
    EXPECT_NE(second.sentence.find(" is being written by process "), std::string::npos)
        << second.sentence;
  }
  EXPECT_FALSE(std::filesystem::exists(scratch / "run" / "training.lock"));
}

TEST(TrainingRun, StopsWhenNothingImprovesAndKeepsTheBest) {
  const TemporaryDirectory scratch;
  TrainingOptions o = small("copy", scratch / "run");
  o.run.course.steps = 400;
  o.run.course.eval_every = 1;
  o.run.course.patience = 2;
  o.run.course.keep_best = true;
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
  o.run.course.eval_every = 0;
  o.run.course.patience = 1;
  EXPECT_NE(message_of([&] { TrainingRun run(o); }).find("--eval-every"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(scratch / "none"));
}

// Enough training to answer held-out sequences without a fault.
TEST(Writer, AnEncoderAndADecoderAnswer) {
  const TemporaryDirectory scratch;
  TrainingOptions o = small("reverse", scratch / "run");
  o.run.options["length"] = "3";
  o.run.course.steps = 500;
  o.run.course.eval_every = 0;
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
  while (writer.room() > 0) {
    answer.push_back(sampler.draw(writer.scores().row(0), answer.size()));
    writer.append({&answer.back(), 1});
  }
  EXPECT_EQ(answer, (std::vector<std::int32_t>{5, 1, 4, 0}));
}

}  // namespace training_run_test
}  // namespace longspan
