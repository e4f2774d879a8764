#include "longspan/learning/schedule.h"

#include <gtest/gtest.h>

#include "longspan/base/error.h"

namespace longspan {
namespace schedule_test {

ScheduleConfig schedule(const char* kind) {
  return {.kind = kind, .peak = 1.0F, .floor = 0.1F, .warmup = 10, .total = 110};
}

TEST(Schedule, WarmsUpAlongALine) {
  EXPECT_FLOAT_EQ(learning_rate(schedule("cosine"), 0), 1.0F / 11);
  EXPECT_FLOAT_EQ(learning_rate(schedule("cosine"), 9), 10.0F / 11);
  EXPECT_FLOAT_EQ(learning_rate(schedule("cosine"), 10), 1.0F);
}

TEST(Schedule, EndsAtTheFloor) {
  for (const char* kind : {"linear", "cosine"}) {
    EXPECT_FLOAT_EQ(learning_rate(schedule(kind), 60), 0.55F) << kind;
    EXPECT_FLOAT_EQ(learning_rate(schedule(kind), 110), 0.1F) << kind;
    EXPECT_FLOAT_EQ(learning_rate(schedule(kind), 1000), 0.1F) << kind;
  }
  EXPECT_FLOAT_EQ(learning_rate(schedule("constant"), 1000), 1.0F);
}

TEST(Schedule, LinearAndCosineDifferInBetween) {
  EXPECT_FLOAT_EQ(learning_rate(schedule("linear"), 35), 0.775F);
  EXPECT_NEAR(learning_rate(schedule("cosine"), 35), 0.1 + 0.9 * 0.853553, 1e-5);
}

TEST(Schedule, AWarmUpLongerThanTheRunIsFine) {
  ScheduleConfig c = schedule("cosine");
  c.warmup = 200;
  EXPECT_FLOAT_EQ(learning_rate(c, 150), 151.0F / 201);
  EXPECT_FLOAT_EQ(learning_rate(c, 200), 0.1F);
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  EXPECT_THROW(check(schedule("cosin")), Error);
  ScheduleConfig c = schedule("cosine");
  c.peak = 0.0F;
  EXPECT_THROW(check(c), Error);
  c = schedule("cosine");
  c.floor = 2.0F;
  EXPECT_THROW(check(c), Error);
}

}  // namespace schedule_test
}  // namespace longspan
