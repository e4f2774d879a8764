#include "longspan/training/teacher.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "longspan/base/random.h"
#include "longspan/testing/temporary_directory.h"
#include "longspan/training/training_run.h"

namespace longspan {
namespace teacher_test {

namespace fs = std::filesystem;
using testing::message_of;
using testing::read_bytes;

// Words of four letters, so that there is something to learn.
void write_text(const fs::path& path, const char* letters) {
  std::string text;
  for (std::size_t i = 0; i < 4000; ++i) {
    const std::size_t word = random_below(5, i, 3);
    for (std::size_t j = 0; j < 4; ++j) text += letters[(word * j + word) % 6];
    text += ' ';
  }
  testing::write_bytes(path, text);
}

struct Given {
  Given() {
    write_text(scratch / "text", "abcdef");
    TrainingOptions o = options("teacher", 2);
    o.run.course.steps = 60;
    run(o);
  }
  TrainingOptions options(const char* out, std::size_t layers, const char* task = "mlm") const {
    TrainingOptions o;
    o.out = (scratch / out).string();
    o.run.data.task = task;
    o.run.data.batch = 8;
    o.run.options = {{"data", (scratch / "text").string()}, {"length", "15"}};
    o.run.model.layers = layers;
    o.run.model.d_model = 32;
    o.run.model.heads = 2;
    o.run.model.init_deviation = 0.18F;
    o.run.train.schedule.peak = 3e-3F;
    o.run.course.steps = 30;
    o.run.course.eval_every = 10;
    o.run.course.save_every = 7;
    return o;
  }
  TrainingOptions student(const char* out) const {
    TrainingOptions o = options(out, 1);
    o.run.teacher.directory = (scratch / "teacher").string();
    o.run.teacher.distillation = {
        .temperature = 2.0F, .teacher_weight = 0.8F, .hidden_weight = 0.2F};
    return o;
  }
  static TrainingResult run(const TrainingOptions& o) {
    TrainingObserver nobody;
    return TrainingRun(o).run(nobody);
  }
  double divergence(const char* out) const {
    LoadedRun run = load_run(scratch / out);
    const auto task = run.config.make_task();
    task->open();
    Teacher teacher(scratch / "teacher", run.config);
    Closeness closeness;
    BatchMemory memory;
    evaluate(*run.model, *task, Split::kValidation,
             {.sees = [&](Batch batch, ConstMatrix scores, std::size_t /*first*/) {
               teacher.teach(batch, memory);
               closeness.add(batch, scores);
             }});
    return closeness.metrics().front().value;
  }

  testing::TemporaryDirectory scratch;
};

TEST(Teacher, AStudentComesCloserToIt) {
  const Given given;
  Given::run(given.options("alone", 1));
  Given::run(given.student("taught"));
  EXPECT_LT(given.divergence("taught"), 0.7 * given.divergence("alone"));
  EXPECT_NEAR(given.divergence("teacher"), 0.0, 1e-9);
  const RunConfig config = load_run(given.scratch / "taught").config;
  EXPECT_EQ(config.model.loss, "distillation:temperature=2,teacher_weight=0.8,hidden_weight=0.2");
}

// KL(p ‖ q) of two rows, one of which counts.
TEST(Teacher, ClosenessIsTheDivergence) {
  const std::vector<float> teacher = {0.0F, 0.0F, 9.0F, 1.0F};
  const std::vector<float> student = {std::log(3.0F), 0.0F, 1.0F, 9.0F};
  const std::vector<std::int32_t> targets = {1, kIgnoredTarget};
  Closeness closeness;
  closeness.add({.batch = 2, .length = 1, .targets = targets, .teacher_scores = teacher},
                {student.data(), 2, 2});
  EXPECT_EQ(closeness.counted, 1U);
  EXPECT_EQ(closeness.agreed, 1U);  // the first of equals
  EXPECT_NEAR(closeness.divergence, 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25), 1e-6);
}

struct StopsAt final : TrainingObserver {
  explicit StopsAt(std::size_t at) : left(at) {}
  bool stops() override { return left == 0; }
  void stepped(const StepReport& /*report*/, double /*per_second*/) override { --left; }
  std::size_t left;
};

TEST(Teacher, AResumedStudentHasTheSameBits) {
  const Given given;
  Given::run(given.student("whole"));
  TrainingOptions o = given.student("parts");
  StopsAt soon(11);
  EXPECT_TRUE(TrainingRun(o).run(soon).interrupted);
  o.resume = true;
  o.run.teacher = {};  // what it learned from is in the run
  Given::run(o);
  EXPECT_EQ(read_bytes(given.scratch / "parts" / "model.safetensors"),
            read_bytes(given.scratch / "whole" / "model.safetensors"));
}

TEST(Teacher, AnotherOneOrNoneIsNoticed) {
  const Given given;
  TrainingOptions o = given.student("run");
  StopsAt soon(3);
  TrainingRun(o).run(soon);
  o.resume = true;
  o.run.teacher = {};
  const std::string teacher = (given.scratch / "teacher").string();
  fs::rename(given.scratch / "teacher", given.scratch / "away");
  EXPECT_EQ(message_of([&] { Given::run(o); }),
            "[train] " + teacher + ", from which " + o.out +
                " learned, is gone; need --teacher with the same run");
  o.run.teacher.directory = (given.scratch / "away").string();
  o.asked = {{"teacher/teacher", "--teacher"}};
  EXPECT_EQ(TrainingRun(o).config().teacher.path, (given.scratch / "away").string());
  Given::run(given.options("teacher", 2));
  o.run.teacher = {};
  o.asked = {};
  EXPECT_EQ(message_of([&] { Given::run(o); }),
            "[train] " + teacher + " is not what " + o.out +
                " learned from; need the same teacher to resume");
}

TEST(Teacher, OneThatDoesNotFitIsRefused) {
  const Given given;
  const std::string teacher = (given.scratch / "teacher").string();
  TrainingOptions o = given.student("run");
  o.run.model.d_model = 16;
  EXPECT_EQ(message_of([&] { TrainingRun run(o); }),
            "[teacher] " + teacher +
                " has hidden states of width 32 and the student of 16; need the same width, or "
                "--hidden-weight 0");
  o.run.teacher.distillation.hidden_weight = 0.0F;
  TrainingRun narrow(o);
  EXPECT_GT(narrow.teacher_work().maccs, 0U);
  o = given.student("run");
  o.run.data.task = "text";
  EXPECT_EQ(message_of([&] { TrainingRun run(o); }),
            "[teacher] " + teacher + " was trained on mlm; need a teacher of text");
  o = given.student("run");
  o.run.options["length"] = "16";
  EXPECT_EQ(message_of([&] { TrainingRun run(o); }),
            "[teacher] " + teacher + " takes at most 15 tokens; need as many as the student, 16");
  write_text(given.scratch / "other", "uvwxyz");
  o = given.student("run");
  o.run.options["data"] = (given.scratch / "other").string();
  EXPECT_NE(message_of([&] { TrainingRun run(o); }).find("need those of the student"),
            std::string::npos);
  o.run.teacher.directory = "nowhere";
  EXPECT_NE(message_of([&] { TrainingRun run(o); }).find("nowhere does not exist"),
            std::string::npos);
}

}  // namespace teacher_test
}  // namespace longspan
