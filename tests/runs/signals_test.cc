// Two hundred signals at random moments of trainings: the checkpoint is whole, the exit code says
// which signal it was, and going on ends with the bits of a training that was left alone.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "longspan/base/random.h"
#include "longspan/testing/command_line.h"
#include "longspan/training/run_directory.h"

namespace longspan::testing {
namespace signals_test {

constexpr int kSignals = 200;

std::vector<std::string> arguments(const std::string& out, bool resumes) {
  std::vector<std::string> all = {"train",          "copy", "--out",     out, "--steps",      "300",
                                  "--eval-every",   "50",   "--threads", "1", "--save-every", "20",
                                  "--eval-windows", "8",    "--quiet"};
  const std::vector<std::string> more =
      resumes ? std::vector<std::string>{"--resume"}
              : std::vector<std::string>{"--layers", "1",       "--d-model", "8",        "--heads",
                                         "2",        "--batch", "2",         "--length", "8"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Signals, AtRandomMomentsCostNothing) {
  constexpr std::array kKinds = {SIGINT, SIGTERM, SIGHUP, SIGKILL};
  const TemporaryDirectory scratch;
  const std::string undisturbed = (scratch / "undisturbed").string();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(longspan(arguments(undisturbed, false)).status, 0);
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
                        std::chrono::steady_clock::now() - start)
                        .count();
  const auto longest = static_cast<std::uint64_t>(std::min<std::int64_t>(took, 200'000));
  const std::string weights = read_bytes(undisturbed + "/model.safetensors");

  const std::string m = (scratch / "m").string();
  int sent = 0;
  for (std::uint64_t attempt = 0; sent < kSignals && attempt < 4 * kSignals; ++attempt) {
    Process training(arguments(m, checkpoint_exists(m)));
    const int signal = kKinds[random_below(11, attempt, kKinds.size())];
    usleep(static_cast<useconds_t>(random_below(12, attempt, longest)));
    training.signal(signal);
    const Outcome outcome = training.wait();
    if (outcome.status != 0) {
      ASSERT_EQ(outcome.status, 128 + signal) << outcome.err;
      ++sent;
      if (checkpoint_exists(m)) {
        ASSERT_EQ(message_of([&] { load_run(m); }), "") << "signal " << signal;
      }
      continue;
    }
    ASSERT_EQ(read_bytes(m + "/model.safetensors"), weights);
    std::filesystem::remove_all(m);
  }
  EXPECT_EQ(sent, kSignals);
  // On a busy machine none may have come to its end: what the last signal left does.
  ASSERT_EQ(longspan(arguments(m, checkpoint_exists(m))).status, 0);
  EXPECT_EQ(read_bytes(m + "/model.safetensors"), weights);
}

// Signals that a thread of the process handles by interrupting what it does.
std::uint64_t caught_by(pid_t id) {
  std::ifstream status(fmt::format("/proc/{}/status", id));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:")) return std::stoull(line.substr(7), nullptr, 16);
  }
  return ~std::uint64_t{0};
}

// Compiled kernels keep data where the frame of a handler would overwrite it: products went wrong,
// and the heap with them, once in thousands of signals.
TEST(Signals, InterruptNoComputation) {
  const TemporaryDirectory scratch;
  std::vector<std::string> all = arguments((scratch / "m").string(), false);
  *std::ranges::find(all, "300") = "1000000";
  Process training(all);
  while (!checkpoint_exists((scratch / "m").string())) usleep(1000);
  const std::uint64_t caught = caught_by(training.id());
  for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
    EXPECT_EQ(caught >> static_cast<unsigned>(number - 1) & 1U, 0U) << number;
  }
  training.signal(SIGHUP);
  EXPECT_EQ(training.wait().status, 128 + SIGHUP);
}

// As nohup and shells that start something in the background ask for it.
TEST(Signals, ThatAreIgnoredStayIgnored) {
  const TemporaryDirectory scratch;
  const auto usual = std::signal(SIGHUP, SIG_IGN);
  Process training(arguments((scratch / "m").string(), false));
  std::signal(SIGHUP, usual);
  while (!checkpoint_exists((scratch / "m").string())) usleep(1000);
  training.signal(SIGHUP);
  EXPECT_EQ(training.wait().status, 0);
}

}  // namespace signals_test
}  // namespace longspan::testing
