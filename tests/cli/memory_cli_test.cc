// Trainings that are refused memory: a sentence, exit 1, and the checkpoint that was there or a new
// one, never a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "longspan/testing/command_line.h"
#include "longspan/testing/failing.h"
#include "longspan/training/run_directory.h"

namespace longspan::testing {
namespace memory_cli_test {

using ::testing::HasSubstr;

struct Training {
  const char* attention;
  const char* width = "8";
  const char* length = "4";
  const char* threads = "1";
};

// The second is large enough for products that are packed and divided among threads; the others
// keep lists of their own.
constexpr std::array kTrainings = {Training{"flash"},
                                   Training{"full", "160", "300", "2"},
                                   Training{"longformer:window=4"},
                                   Training{"transformer-xl"},
                                   Training{"deberta"},
                                   Training{"memory-compressed"},
                                   Training{"bigbird:block=4"},
                                   Training{"performer"},
                                   Training{"flash", "8", "4", "2"}};

std::vector<std::string> arguments(const Training& t, const std::string& out) {
  return {"train",   "copy",        "--out",     out,          "--steps",
          "2",       "--layers",    "1",         "--d-model",  t.width,
          "--heads", "2",           "--batch",   "2",          "--length",
          t.length,  "--threads",   t.threads,   "--quiet",    "--eval-every",
          "0",       "--attention", t.attention, "--overwrite"};
}

std::vector<float> weights(const std::string& checkpoint) {
  const LoadedRun run = load_run(checkpoint);
  const auto values = run.model->parameters().values();
  return {values.begin(), values.end()};
}

// From the first checkpoint of a run on, so that its steps are what is refused memory. A run that
// does without what it was refused has the weights of one that was not: no product is left out.
TEST(RefusedMemory, OfATrainingStepCostsNothing) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  std::map<const Training*, std::vector<float>> undisturbed;
  for (const Training& t : kTrainings) {
    ASSERT_EQ(longspan(arguments(t, m)).status, 0) << t.attention;
    undisturbed[&t] = weights(m);
  }
  int refused = 0;
  for (int call = 1; call <= 500; ++call) {
    // Every call of the first kind, and each of the others at its turn.
    const Training& t = call % 2 == 0 ? kTrainings[0] : kTrainings[call / 2 % kTrainings.size()];
    Outcome outcome;
    {
      const Failing failing(call, call % 4 < 2 ? "memory" : "no memory", "rename");
      outcome = longspan(arguments(t, m));
    }
    ASSERT_TRUE(outcome.status == 0 || outcome.status == 1)
        << call << " " << t.attention << ": " << outcome.status << " " << outcome.err;
    if (outcome.status == 1) {
      ++refused;
      EXPECT_THAT(outcome.err, HasSubstr("longspan: [")) << call;
    }
    std::vector<float> now;
    EXPECT_EQ(message_of([&] { now = weights(m); }), "") << call;
    if (outcome.status == 0) {
      EXPECT_EQ(now, undisturbed.at(&t)) << call << " " << t.attention;
    }
  }
  EXPECT_GT(refused, 250);
}

// From the beginning of the program to where it has its model.
TEST(RefusedMemory, AnywhereInATrainingIsASentence) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  ASSERT_EQ(longspan(arguments(kTrainings[0], m)).status, 0);
  for (int i = 0; i < 100; ++i) {
    Outcome outcome;
    {
      const Failing failing(1 + i + i * i / 2, "no memory");
      outcome = longspan(arguments(kTrainings[0], m));
    }
    ASSERT_TRUE(outcome.status == 0 || outcome.status == 1) << i << ": " << outcome.err;
    EXPECT_EQ(message_of([&] { load_run(m); }), "") << i;
  }
}

}  // namespace memory_cli_test
}  // namespace longspan::testing
