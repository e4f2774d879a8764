#include <gtest/gtest.h>

#include "longspan/tasks/registry.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace {

TEST(Tasks, AreFoundByName) {
  EXPECT_FALSE(tasks().empty());
  for (const Task& task : tasks()) {
    EXPECT_EQ(&find_task(task.name), &task);
    EXPECT_FALSE(task.summary.empty());
  }
  EXPECT_EQ(testing::message_of([] { find_task("txt"); }),
            "[task] unknown task 'txt'; did you mean 'text'? Known: text, images");
}

}  // namespace
}  // namespace longspan
