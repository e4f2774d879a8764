#include <gtest/gtest.h>

#include "longspan/tasks/registry.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace task_registry_test {

TEST(Tasks, AreFoundByName) {
  EXPECT_FALSE(tasks().empty());
  for (const TaskEntry& task : tasks()) {
    EXPECT_EQ(&find_task(task.name), &task);
    EXPECT_FALSE(task.summary.empty());
  }
  EXPECT_EQ(testing::message_of([] { find_task("txt"); }),
            "[task] unknown task 'txt'; did you mean 'text'? Known: text, mlm, images, "
            "listops, text-class, retrieval, pixels, pathfinder, copy, recall, reverse, "
            "translate, events");
}

TEST(Tasks, AreDocumentedWithTheirProtocols) {
  const std::string page = testing::read_bytes(LONGSPAN_SOURCE_DIR "/docs/guide/quality.md");
  for (const TaskEntry& task : tasks()) {
    const Protocol p = task.make({})->protocol();
    const std::string row =
        fmt::format("| {} | {} | {} | {} | {} | {} | {} of {} | {:g} |\n", task.name, p.layers,
                    p.d_model, p.heads, p.positions.name(), p.before.empty() ? "–" : p.before,
                    p.steps, p.batch, p.learning_rate);
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
}

TEST(Tasks, TakeTheirOptionsByName) {
  for (const TaskEntry& task : tasks()) {
    TaskOptions standard;
    for (const TaskOption& option : task.options()) {
      EXPECT_FALSE(option.purpose.empty()) << task.name << ' ' << option.name;
      EXPECT_TRUE(task.has_option(option.name));
      standard[option.name] = option.standard;
    }
    EXPECT_EQ(task.make({})->options(), standard) << task.name;
    EXPECT_EQ(task.make(standard)->name(), task.name);
    EXPECT_NE(testing::message_of([&] {
                task.make({{"frobnicate", "1"}});
              }).find("frobnicate"),
              std::string::npos);
  }
  EXPECT_EQ(find_task("copy").make({{"symbols", "5"}})->needs().vocabulary, 6U);
  EXPECT_EQ(testing::message_of([] {
              find_task("copy").make({{"length", "-2"}});
            }),
            "[copy] length is '-2'; need a whole number from 1 to 1e7");
}

// Of those that need no files.
TEST(Tasks, AreComparedByAMetricThatTheyHave) {
  std::size_t asked = 0;
  for (const TaskEntry& entry : tasks()) {
    TaskOptions few;
    if (entry.has_option("examples")) few = {{"examples", "30"}, {"held_out", "5"}};
    const std::unique_ptr<Task> task = entry.make(few);
    if (task->needs_data()) continue;
    task->open();
    const Tally tally{.loss = 3.0, .counted = 2, .correct = 1, .sequences = 1, .bytes = 2};
    const Judgement judgement = task->judge(task->held_out(), tally);
    EXPECT_NO_THROW(judgement.at(task->criterion().metric)) << entry.name;
    ++asked;
  }
  EXPECT_GE(asked, 7);
  EXPECT_EQ(testing::message_of([] { Judgement{}.at("beauty"); }),
            "[task] a judgement has no beauty; need one of its metrics");
}

// Before there are any data.
TEST(Tasks, SayWhichModelsTheyMayNeed) {
  EXPECT_EQ(find_task("text").make({})->families(), std::vector{Family::kDecoder});
  EXPECT_EQ(find_task("images").make({})->families(),
            (std::vector{Family::kPerceptron, Family::kEncoder}));
  EXPECT_EQ(find_task("copy").make({})->families(), std::vector{Family::kDecoder});
  EXPECT_EQ(find_task("reverse").make({})->families(), std::vector{Family::kEncoderDecoder});
  for (const char* drawn : {"text", "mlm", "copy", "recall", "reverse"}) {
    EXPECT_TRUE(find_task(drawn).make({})->endless()) << drawn;
  }
  EXPECT_FALSE(find_task("images").make({})->endless());
}

TEST(Tasks, SplitsHaveNames) {
  for (const Split split : {Split::kTraining, Split::kValidation, Split::kTest, Split::kAll}) {
    EXPECT_EQ(named<Split>("eval", name_of(split)), split);
  }
  EXPECT_NE(testing::message_of([] { named<Split>("eval", "tset"); }).find("'test'"),
            std::string::npos);
}

}  // namespace task_registry_test
}  // namespace longspan
