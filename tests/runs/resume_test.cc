// Training that is killed at random moments and resumed ends with the same bits as training that is
// left alone, on any number of threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "longspan/base/random.h"
#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace resume_test {

constexpr int kSteps = 400;

std::vector<std::string> arguments(const std::string& out, const std::string& threads) {
  return {"train",        "text",  "--data",       kText,
          "--out",        out,     "--steps",      std::to_string(kSteps),
          "--layers",     "2",     "--d-model",    "32",
          "--heads",      "2",     "--batch",      "4",
          "--length",     "16",    "--dropout",    "0.1",
          "--eval-every", "0",     "--save-every", "7",
          "--threads",    threads, "--quiet"};
}

// The run knows the rest.
std::vector<std::string> resume(const std::string& out, const std::string& threads) {
  return {"train", "text", "--out", out, "--resume", "--threads", threads, "--quiet"};
}

std::string weights(const std::string& model) { return read_bytes(model + "/model.safetensors"); }

TEST(Resume, KilledAtRandomMomentsGivesTheSameBits) {
  const TemporaryDirectory scratch;
  const std::string undisturbed = (scratch / "undisturbed").string();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(longspan(arguments(undisturbed, "2")).status, 0);
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - start);

  int kills = 0;
  // A run that was quicker than the one that set the clock may end before it is killed.
  for (std::uint64_t trial = 0; trial < 3 || (kills < 3 && trial < 12); ++trial) {
    const std::string killed = (scratch / ("killed" + std::to_string(trial))).string();
    bool finished = false;
    for (std::uint64_t attempt = 0; !finished && attempt < 200; ++attempt) {
      const bool exists = std::filesystem::exists(killed + "/model.safetensors");
      Process train(exists ? resume(killed, "2") : arguments(killed, "2"));
      // Up to a third of the whole run, so that every run is killed a few times and still gets on;
      // longer after many attempts, for a machine that is busier than when the clock was set.
      const auto third = static_cast<std::uint64_t>(took.count() / 3 + 1);
      const auto pause = 1000 + random_below(derive(7, trial), attempt, third * (1 + attempt / 10));
      usleep(static_cast<useconds_t>(pause));
      train.signal(SIGKILL);
      const Outcome outcome = train.wait();
      finished = outcome.status == 0;
      kills += finished ? 0 : 1;
      ASSERT_TRUE(finished || outcome.status == 128 + SIGKILL) << outcome.err;
    }
    ASSERT_TRUE(finished);
    EXPECT_EQ(weights(killed), weights(undisturbed)) << "trial " << trial;
  }
  EXPECT_GE(kills, 3);
}

TEST(Resume, OneAndTwoThreadsGiveTheSameBits) {
  const TemporaryDirectory scratch;
  ASSERT_EQ(longspan(arguments((scratch / "one").string(), "1")).status, 0);
  ASSERT_EQ(longspan(arguments((scratch / "two").string(), "2")).status, 0);
  EXPECT_EQ(weights((scratch / "one").string()), weights((scratch / "two").string()));
}

}  // namespace resume_test
}  // namespace longspan::testing
