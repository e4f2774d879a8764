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

namespace longspan::testing {
namespace faults_cli_test {

using ::testing::HasSubstr;

// While it lives, the programs that are started fail so.
class Failing {
 public:
  Failing(int call, const char* how) {
    setenv("LD_PRELOAD", LONGSPAN_BINARY_DIR "/tests/failing_calls.so", 1);
    setenv("FAILING_CALL", std::to_string(call).c_str(), 1);
    setenv("FAILING_HOW", how, 1);
  }
  ~Failing() {
    for (const char* name : {"LD_PRELOAD", "FAILING_CALL", "FAILING_HOW"}) unsetenv(name);
  }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;
};

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
  int reached = 0;
  for (int cut = 0; cut < 64; ++cut) {
    Outcome outcome;
    {
      const Failing failing(1 + 4 * cut, GetParam());
      outcome = longspan(training(m, cut));
    }
    if (outcome.status != 0) ++reached;
    const int expected = how == "kill" ? 128 + SIGKILL : 1;
    EXPECT_TRUE(outcome.status == 0 || outcome.status == expected) << outcome.status << outcome.err;
    for (const std::string& checkpoint : {m, m + "/best"}) {
      const Outcome opened = longspan({"eval", checkpoint, "--quiet"});
      ASSERT_EQ(opened.status, 0) << "call " << 1 + 4 * cut << ": " << opened.err;
    }
  }
  EXPECT_GT(reached, 20);
  EXPECT_EQ(longspan(training(m, 901)).status, 0) << "nothing is in the way of the next run";
}
INSTANTIATE_TEST_SUITE_P(EachWay, FailingCalls, ::testing::Values("error", "kill"),
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
