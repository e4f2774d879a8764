// Commands whose system calls fail, one after the other: what was there is never lost.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "longspan/testing/command_line.h"
#include "longspan/testing/failing.h"
#include "longspan/training/run_directory.h"

namespace longspan::testing {
namespace faults_cli_test {

using ::testing::HasSubstr;

constexpr int kCuts = 64;

// Where a disk that takes `bytes` in all is full, or which call fails.
long place_of(const std::string& how, int cut, long bytes) {
  return how == "full" ? bytes * cut / kCuts : 1 + 4 * cut;
}

int status_of(const std::string& how) { return how == "kill" ? 128 + SIGKILL : 1; }

// Another configuration each time, saved at the beginning, the end, and twice as the best.
std::vector<std::string> training(const std::string& out, int dropout) {
  return {"train",
          "copy",
          "--out",
          out,
          "--steps",
          "2",
          "--layers",
          "1",
          "--d-model",
          "8",
          "--heads",
          "2",
          "--batch",
          "2",
          "--length",
          "4",
          "--threads",
          "1",
          "--quiet",
          "--eval-every",
          "1",
          "--eval-windows",
          "4",
          "--keep-best",
          "--overwrite",
          "--save-every",
          "1",
          "--dropout",
          fmt::format("0.{:03}", dropout + 1)};
}

class FailingCalls : public ::testing::TestWithParam<const char*> {};

TEST_P(FailingCalls, CostNoCheckpoint) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  ASSERT_EQ(longspan(training(m, 900)).status, 0);
  const std::string how = GetParam();
  // It is saved at the beginning, after each step and at the end, and twice as the best.
  const auto bytes = 6 * static_cast<long>(std::filesystem::file_size(m + "/model.safetensors"));
  int reached = 0;
  for (int cut = 0; cut < kCuts; ++cut) {
    Outcome outcome;
    {
      const Failing failing(place_of(how, cut, bytes), GetParam());
      outcome = longspan(training(m, cut));
    }
    if (outcome.status != 0) ++reached;
    EXPECT_TRUE(outcome.status == 0 || outcome.status == status_of(how))
        << outcome.status << outcome.err;
    for (const std::string& checkpoint : {m, m + "/best"}) {
      EXPECT_EQ(message_of([&] { load_run(checkpoint); }), "") << how << " " << cut;
    }
  }
  EXPECT_GT(reached, 20);
  EXPECT_EQ(longspan(training(m, 901)).status, 0) << "nothing is in the way of the next run";
}

// A picture is the old one or the new one.
TEST_P(FailingCalls, CostNoPicture) {
  const TemporaryDirectory scratch;
  const std::string picture = (scratch / "p.svg").string();
  const auto draw = [&](const char* window) {
    return longspan({"pattern", std::string("window:window=") + window, "--length", "24", "--out",
                     picture, "--overwrite"});
  };
  ASSERT_EQ(draw("3").status, 0);
  const std::string old = read_bytes(picture);
  ASSERT_EQ(draw("5").status, 0);
  const std::string fresh = read_bytes(picture);
  ASSERT_NE(old, fresh);
  const std::string how = GetParam();
  int reached = 0;
  for (int cut = 0; cut < (how == "full" ? kCuts : 8); ++cut) {  // of calls there are few
    write_bytes(picture, old);
    const long at = how == "full" ? place_of(how, cut, static_cast<long>(fresh.size())) : 1 + cut;
    Outcome outcome;
    {
      const Failing failing(at, GetParam());
      outcome = draw("5");
    }
    if (outcome.status != 0) ++reached;
    EXPECT_TRUE(outcome.status == 0 || outcome.status == status_of(how))
        << outcome.status << outcome.err;
    const std::string now = read_bytes(picture);
    EXPECT_TRUE(now == fresh || (now == old && outcome.status != 0)) << how << " " << at;
  }
  EXPECT_GE(reached, 3);
}

INSTANTIATE_TEST_SUITE_P(EachWay, FailingCalls, ::testing::Values("error", "kill", "full"),
                         [](const auto& how) { return std::string(how.param); });

TEST(InterruptedCalls, AreRepeated) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  Outcome outcome;
  {
    const Failing failing(1, "interrupt");
    outcome = longspan(training(m, 1));
  }
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("checkpoint of step 2"));
  EXPECT_EQ(longspan({"eval", m}).status, 0);
}

}  // namespace faults_cli_test
}  // namespace longspan::testing
