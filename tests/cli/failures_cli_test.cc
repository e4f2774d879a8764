// What the command line does when the world fails it: full disks, closed streams, signals, another
// training in the same place, things that are no files.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace failures_cli_test {

using ::testing::HasSubstr;

TEST(FullDisk, KeepsTheOldCheckpointAndSaysSo) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  ASSERT_EQ(longspan(small_training(m)).status, 0);
  const std::string before = read_bytes(m + "/model.safetensors");
  const Outcome full = longspan(
      {"train", "text", "--out", m, "--resume", "--steps", "12", "--quiet"}, {.file_limit = 4096});
  EXPECT_EQ(full.status, 1);
  EXPECT_THAT(full.err, HasSubstr("model.safetensors"));
  EXPECT_EQ(std::count(full.err.begin(), full.err.end(), '\n'), 1) << full.err;
  EXPECT_EQ(read_bytes(m + "/model.safetensors"), before);
  EXPECT_EQ(longspan({"eval", m}).status, 0);
}

TEST(FullDisk, NoCutOfAnOverwritingRunCostsTheCheckpoint) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  ASSERT_EQ(longspan(small_training(m)).status, 0);
  const auto size = static_cast<long>(std::filesystem::file_size(m + "/model.safetensors"));
  for (long cut = 0; cut < 16; ++cut) {
    const Outcome full = longspan(small_training(m, {"--overwrite", "--dropout", "0.1"}),
                                  {.file_limit = size * cut / 16});
    EXPECT_EQ(full.status, 1) << full.err;
    EXPECT_EQ(longspan({"eval", m}).status, 0) << cut;
  }
}

TEST(FullDisk, ACommandSaysThatItsResultIsLost) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  ASSERT_EQ(longspan(small_training(m)).status, 0);
  const std::vector<std::vector<std::string>> commands = {
      {"version"},
      {"version", "--json"},
      {"list"},
      {"--help"},
      {"train", "--help"},
      {"eval", m},
      {"eval", m, "--json"},
      {"generate", m, "--tokens", "5"},
      {"generate", m, "--tokens", "5", "--json", "--quiet"},
      {"cost", "--help"},
      {"pattern", "window", "--length", "8"},
      small_training(m, {"--overwrite"})};
  for (const auto& command : commands) {
    const Outcome outcome = longspan(command, {.out = "/dev/full"});
    EXPECT_EQ(outcome.status, 1) << command[0];
    EXPECT_EQ(outcome.err,
              "longspan: [output] standard output could not be written: No space left on "
              "device\n");
    EXPECT_EQ(longspan(command, {.out = kClosed}).status, 1) << command[0];
  }
}

// Notes, progress and complaints that nobody can read change nothing.
TEST(FullDisk, OfTheLogCostsNothing) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  for (const std::string& log : {std::string("/dev/full"), kClosed}) {
    std::filesystem::remove_all(m);
    const Outcome train =
        longspan({"train",    "text", "--data",       kText, "--out",   m,   "--steps", "8",
                  "--layers", "1",    "--d-model",    "16",  "--heads", "2", "--batch", "2",
                  "--length", "8",    "--eval-every", "2"},
                 {.err = log});
    EXPECT_EQ(train.status, 0) << log;
    EXPECT_THAT(train.out, HasSubstr("checkpoint of step 8"));
    EXPECT_EQ(longspan({"eval", m}, {.err = log}).status, 0);
    EXPECT_EQ(longspan({"generate", m, "--tokens", "5"}, {.err = log}).status, 0);
    EXPECT_EQ(longspan({"trian"}, {.err = log}).status, 2);
    EXPECT_EQ(longspan({"eval", "nowhere"}, {.err = log}).status, 2);
    EXPECT_EQ(longspan({"version"}, {.out = "/dev/full", .err = log}).status, 1);
  }
}

TEST(ClosedPipe, EndsQuietly) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  ASSERT_EQ(longspan(small_training(m)).status, 0);
  const std::string err = (scratch / "err").string();
  const std::string command = fmt::format(
      "exec '{}/longspan' generate '{}' --tokens 1000000 2>'{}'", LONGSPAN_BINARY_DIR, m, err);
  FILE* const pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  EXPECT_NE(std::fgetc(pipe), EOF);
  EXPECT_EQ(WEXITSTATUS(pclose(pipe)), 128 + SIGPIPE);
  EXPECT_EQ(read_bytes(err), "");
}

TEST(Interrupt, SavesAndSaysHowToGoOn) {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    const TemporaryDirectory scratch;
    const std::string m = (scratch / "m").string();
    // It is met within a step, or within an evaluation that takes seconds.
    for (const char* eval_every : {"0", "1"}) {
      std::filesystem::remove_all(m);
      std::vector<std::string> arguments = {
          "train",   "text",     "--data",   kText,       "--out",        m,         "--steps",
          "1000000", "--layers", "1",        "--d-model", "16",           "--heads", "2",
          "--batch", "2",        "--length", "8",         "--eval-every", eval_every};
      if (eval_every == std::string("1")) {
        arguments.insert(arguments.end(), {"--eval-windows", "0"});
      }
      Process train(arguments);
      while (!std::filesystem::exists(m + "/config.json")) usleep(10000);
      usleep(300000);
      train.signal(signal);
      const Outcome outcome = train.wait();
      EXPECT_EQ(outcome.status, 128 + signal) << outcome.err;
      EXPECT_THAT(outcome.out, HasSubstr("--resume"));
      EXPECT_FALSE(std::filesystem::exists(m + "/training.lock"));
      EXPECT_EQ(longspan({"eval", m}).status, 0);
    }
  }
}

TEST(Interrupt, OtherCommandsEndAtOnce) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  ASSERT_EQ(longspan(small_training(m)).status, 0);
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    Process generate({"generate", m, "--tokens", "100000000"});
    usleep(200000);
    generate.signal(signal);
    EXPECT_EQ(generate.wait().status, 128 + signal);
  }
}

TEST(TwoTrainings, TheSecondIsRefused) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  const std::vector<std::string> arguments = {
      "train",   "text",     "--data",   kText,       "--out",        m,         "--steps",
      "1000000", "--layers", "1",        "--d-model", "16",           "--heads", "2",
      "--batch", "2",        "--length", "8",         "--eval-every", "0",       "--overwrite"};
  Process first(arguments);
  while (!std::filesystem::exists(m + "/config.json")) usleep(10000);
  const std::string sentence = fmt::format("{} is being written by process {} on ", m, first.id());
  expect_wrong_input(longspan(arguments), sentence);
  expect_wrong_input(longspan({"train", "text", "--out", m, "--resume"}), sentence);
  first.signal(SIGKILL);
  first.wait();
  EXPECT_TRUE(std::filesystem::exists(m + "/training.lock"));
  const Outcome next = longspan({"train", "text", "--out", m, "--resume", "--steps", "1"});
  EXPECT_EQ(next.status, 0) << next.err;
}

TEST(BadInput, WhatIsNoFileIsRefusedAtOnce) {
  const TemporaryDirectory scratch;
  const std::string pipe = (scratch / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), scratch.path().string()}) {
    const std::vector<std::vector<std::string>> commands = {
        {"train", "text", "--data", path, "--out", (scratch / "m").string()},
        {"compare", "--render", path},
        {"compare", "--add", path},
        {"calibrate", "--show", "--out", path},
        {"plan", "--list", "--devices", path},
        {"cost", "--model", path},
        {"eval", path}};
    for (const auto& command : commands) {
      const Outcome outcome = longspan(command);
      EXPECT_EQ(outcome.status, 2) << command[0] << " " << path;
      EXPECT_THAT(outcome.err, HasSubstr(path));
    }
  }
}

TEST(BadInput, PlacesThatCannotBeWrittenAreRefusedBeforeTheWork) {
  const TemporaryDirectory scratch;
  const std::string taken = (scratch / "taken.json").string();
  write_bytes(taken, "mine");
  expect_wrong_input(longspan({"calibrate", "--out", scratch.path().string()}),
                     "is not a regular file");
  expect_wrong_input(longspan({"calibrate", "--out", taken}), "exists already");
  expect_wrong_input(longspan({"compare", "--out", taken}), "exists already");
  expect_wrong_input(longspan({"compare", "--out", (scratch / "z.html").string()}),
                     "need another ending");
  const std::string picture = (scratch / "p.svg").string();
  ASSERT_EQ(longspan({"pattern", "window", "--out", picture}).status, 0);
  expect_wrong_input(longspan({"pattern", "window", "--out", picture}), "exists already");
  EXPECT_EQ(longspan({"pattern", "window", "--out", picture, "--overwrite"}).status, 0);
  EXPECT_EQ(read_bytes(taken), "mine");
}

}  // namespace failures_cli_test
}  // namespace longspan::testing
