// What the command line says: results, and one sentence for each kind of bad input.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kText = LONGSPAN_SOURCE_DIR "/data/tinyshakespeare.txt";

std::vector<std::string> small_training(const std::string& out,
                                        const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {
      "train",        "text", "--data",  kText,       "--out",   out,         "--steps",  "8",
      "--layers",     "1",    "--heads", "2",         "--batch", "2",         "--length", "8",
      "--eval-every", "0",    "--quiet", "--d-model", "16",      "--threads", "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(CommandLine, ListsItsRegistries) {
  const Outcome table = longspan({"list"});
  EXPECT_EQ(table.status, 0);
  EXPECT_THAT(table.out, AllOf(HasSubstr("flash"), HasSubstr("full"), HasSubstr("text")));
  const auto json = nlohmann::json::parse(longspan({"list", "--json"}).out);
  EXPECT_EQ(json["attention"][0]["name"], "full");
  EXPECT_TRUE(json["attention"][0]["exact"]);
}

TEST(CommandLine, SaysWhatItIs) {
  EXPECT_THAT(longspan({"version"}).out, HasSubstr("longspan "));
  EXPECT_EQ(nlohmann::json::parse(longspan({"version", "--json", "--threads", "1"}).out)["threads"],
            1);
}

TEST(CommandLine, HelpHasExamples) {
  for (const char* command : {"train", "eval", "generate"}) {
    const Outcome help = longspan({command, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.out, HasSubstr("Examples:")) << command;
  }
}

TEST(CommandLine, TrainsEvaluatesAndGenerates) {
  const TemporaryDirectory scratch;
  const std::string model = (scratch / "model").string();
  const Outcome train = longspan(small_training(model, {"--json"}));
  ASSERT_EQ(train.status, 0) << train.err;
  const auto trained = nlohmann::json::parse(train.out);
  EXPECT_EQ(trained["step"], 8);
  EXPECT_FALSE(trained["diverged"]);

  const auto quality = nlohmann::json::parse(longspan({"eval", model, "--json"}).out);
  const double loss = quality["loss"];
  EXPECT_GT(loss, 2.0);
  EXPECT_LT(loss, 4.3);
  EXPECT_NEAR(quality["perplexity"].get<double>(), std::exp(loss), 1e-6 * std::exp(loss));
  // The text is ASCII: a character is a byte.
  EXPECT_NEAR(quality["bits_per_byte"].get<double>(), loss / std::log(2.0), 1e-9);

  const std::vector<std::string> generate = {"generate", model,     "--prompt", "KING", "--tokens",
                                             "20",       "--quiet", "--seed",   "7"};
  const Outcome text = longspan(generate);
  EXPECT_EQ(text.status, 0);
  EXPECT_EQ(text.out.substr(0, 4), "KING");
  EXPECT_EQ(text.out.size(), 4U + 20U + 1U);
  EXPECT_EQ(longspan(generate).out, text.out);
}

TEST(CommandLine, GeneratesPastTheContext) {
  const TemporaryDirectory scratch;
  const std::string model = (scratch / "model").string();
  ASSERT_EQ(longspan(small_training(model)).status, 0);
  const Outcome text = longspan({"generate", model, "--prompt", "A prompt longer than the context",
                                 "--tokens", "50", "--quiet"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.out.size(), 32U + 50U + 1U);
}

TEST(CommandLine, TheSummaryOfGeneratedTextStandsOnALineOfItsOwn) {
  const TemporaryDirectory scratch;
  const std::string model = (scratch / "model").string();
  ASSERT_EQ(longspan(small_training(model)).status, 0);
  const std::string both = (scratch / "both").string();
  const std::string command =
      fmt::format("'{}/longspan' generate '{}' --prompt KING --tokens 5 > '{}' 2>&1",
                  LONGSPAN_BINARY_DIR, model, both);
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_THAT(read_bytes(both), HasSubstr("\n5 tokens, "));
}

TEST(CommandLine, EveryWiringAndMechanismTrains) {
  for (const char* wiring : {"post", "pre", "reversible"}) {
    for (const char* attention : {"full", "flash"}) {
      const TemporaryDirectory scratch;
      const Outcome train =
          longspan(small_training((scratch / "m").string(),
                                  {"--wiring", wiring, "--attention", attention, "--dropout", "0.1",
                                   "--positions", "rotary", "--norm", "rms", "--activation", "silu",
                                   "--gated", "--kv-heads", "1", "--accumulate", "2"}));
      EXPECT_EQ(train.status, 0) << wiring << " " << attention << ": " << train.err;
    }
  }
}

TEST(CommandLine, SegmentsRememberThosePastThem) {
  const TemporaryDirectory scratch;
  const std::string model = (scratch / "model").string();
  const std::string text = (scratch / "text").string();
  std::ofstream(text) << "Now is the winter of our discontent made glorious summer by this sun\n";
  const Outcome train =
      longspan(small_training(model, {"--attention", "transformer-xl", "--positions", "none"}));
  ASSERT_EQ(train.status, 0) << train.err;
  const auto loss = [&](const char* length, const char* memory) {
    const Outcome eval = longspan({"eval", model, "--data", text, "--split", "all", "--length",
                                   length, "--memory", memory, "--batch", "1", "--json"});
    EXPECT_EQ(eval.status, 0) << eval.err;
    return nlohmann::json::parse(eval.out)["loss"].get<double>();
  };
  // Once the whole past is remembered, the length of a segment decides nothing: 68 targets each.
  EXPECT_NEAR(loss("4", "80"), loss("2", "80"), 1e-5);
  EXPECT_GT(std::abs(loss("4", "80") - loss("4", "0")), 1e-4);
  EXPECT_EQ(longspan({"generate", model, "--tokens", "20", "--quiet"}).status, 0);
}

TEST(CommandLine, WritesWithWhatCannotDecode) {
  const TemporaryDirectory scratch;
  const std::string model = (scratch / "model").string();
  const Outcome train =
      longspan(small_training(model, {"--attention", "performer:epsilon=0.0001"}));
  ASSERT_EQ(train.status, 0) << train.err;
  const Outcome text = longspan({"generate", model, "--tokens", "20", "--json"});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(nlohmann::json::parse(text.out)["tokens"], 20);
  expect_wrong_input(
      longspan({"eval", model, "--memory", "8"}),
      "[eval] --memory with performer, which remembers nothing; need transformer-xl");
}

TEST(CommandLine, BytesTrainOnAnything) {
  const TemporaryDirectory scratch;
  std::string noise;
  for (int i = 0; i < 4000; ++i) noise.push_back(static_cast<char>(i * i % 251 + 5));
  write_bytes((scratch / "noise").string(), noise);
  EXPECT_EQ(
      longspan(small_training((scratch / "m").string(),
                              {"--data", (scratch / "noise").string(), "--vocabulary", "bytes"}))
          .status,
      2)
      << "--data twice";
  const Outcome train =
      longspan({"train", "text", "--data", (scratch / "noise").string(), "--vocabulary", "bytes",
                "--out", (scratch / "m").string(), "--steps", "2", "--layers", "1", "--d-model",
                "16", "--heads", "2", "--length", "8", "--quiet"});
  EXPECT_EQ(train.status, 0) << train.err;
}

TEST(BadInput, UnknownNamesSuggestTheNearest) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  expect_wrong_input(longspan({"trian"}), "did you mean 'train'?");
  expect_wrong_input(longspan({"train", "txt"}), "unknown task 'txt'; did you mean 'text'?");
  expect_wrong_input(longspan(small_training(m, {"--attention", "flsh"})), "did you mean 'flash'?");
  expect_wrong_input(longspan(small_training(m, {"--wiring", "prenorm"})), "did you mean 'pre'?");
  expect_wrong_input(longspan(small_training(m, {"--norm", "rsm"})), "did you mean 'rms'?");
  expect_wrong_input(longspan(small_training(m, {"--activation", "gelo"})), "did you mean 'gelu'?");
  expect_wrong_input(longspan(small_training(m, {"--optimizer", "adamm"})), "did you mean 'adam'?");
  expect_wrong_input(longspan(small_training(m, {"--schedule", "cos"})),
                     "Known: constant, linear, cosine");
  expect_wrong_input(longspan(small_training(m, {"--rule", "backprop"})), "did you mean 'bp'?");
  expect_wrong_input(longspan(small_training(m, {"--positions", "rotry"})),
                     "did you mean 'rotary'?");
  expect_wrong_input(longspan(small_training(m, {"--vocabulary", "chars"})), "characters");
  expect_wrong_input(longspan(small_training(m, {"--frobnicate"})), "--frobnicate");
  EXPECT_FALSE(std::filesystem::exists(m)) << "nothing may be written for input that is wrong";
}

TEST(BadInput, ImpossibleShapes) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  expect_wrong_input(longspan(small_training(m, {"--kv-heads", "3"})), "2 heads cannot share 3");
  expect_wrong_input(longspan({"train", "text", "--data", kText, "--out", m, "--heads", "3"}),
                     "width 128 does not divide into 3 heads");
  expect_wrong_input(longspan({"train", "text", "--data", kText, "--out", m, "--length", "0"}),
                     "length 0");
  expect_wrong_input(longspan({"train", "text", "--data", kText, "--out", m, "--length", "-1"}),
                     "--length");
  expect_wrong_input(longspan({"train", "text", "--data", kText, "--out", m, "--layers", "0"}),
                     "layers is 0");
  expect_wrong_input(longspan(small_training(m, {"--dropout", "1"})), "dropout is 1");
  expect_wrong_input(longspan(small_training(m, {"--lr", "-1"})), "learning rate is -1");
  expect_wrong_input(longspan({"train", "text", "--data", kText, "--out", m, "--length", "300000"}),
                     "need at least 3000001 for length 300000");
  expect_wrong_input(longspan({"train", "text", "--data", kText, "--out", m, "--length", "100000",
                               "--attention", "full"}),
                     "use flash");
}

TEST(BadInput, Data) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  write_bytes((scratch / "short").string(), "too short");
  write_bytes((scratch / "binary").string(), std::string("\xff\xfe\x00 not text", 12));
  expect_wrong_input(longspan({"train", "text", "--out", m}), "need --data FILE");
  expect_wrong_input(longspan({"train", "text", "--data", (scratch / "none").string(), "--out", m}),
                     "none");
  expect_wrong_input(
      longspan({"train", "text", "--data", (scratch / "short").string(), "--out", m}), "9 tokens");
  expect_wrong_input(
      longspan({"train", "text", "--data", (scratch / "binary").string(), "--out", m}), "bytes");
}

TEST(BadInput, Checkpoints) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  expect_wrong_input(longspan({"eval", m}), "does not exist");
  expect_wrong_input(longspan({"generate", m}), "does not exist");
  expect_wrong_input(longspan({"train", "text", "--out", m, "--resume"}), "does not exist");

  ASSERT_EQ(longspan(small_training(m)).status, 0);
  expect_wrong_input(longspan(small_training(m)), "already holds a checkpoint");
  const std::string file = m + "/model.safetensors";
  const std::string good = read_bytes(file);

  write_bytes(file, good.substr(0, good.size() / 2));
  expect_wrong_input(longspan({"eval", m}), "model.safetensors");
  write_bytes(file, "");
  expect_wrong_input(longspan({"eval", m}), "model.safetensors");
  std::string flipped = good;
  flipped[good.size() - 100] = static_cast<char>(flipped[good.size() - 100] ^ 1);
  write_bytes(file, flipped);
  expect_wrong_input(longspan({"eval", m}), "corrupt");
  std::filesystem::remove(file);
  expect_wrong_input(longspan({"eval", m}), "model.safetensors");
  write_bytes(file, good);
  ASSERT_EQ(longspan({"eval", m}).status, 0);

  write_bytes(m + "/config.json", "{ not json");
  expect_wrong_input(longspan({"eval", m}), "config.json");
}

TEST(BadInput, Generation) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  ASSERT_EQ(longspan(small_training(m)).status, 0);
  expect_wrong_input(longspan({"generate", m, "--prompt", ""}), "prompt is empty");
  expect_wrong_input(longspan({"generate", m, "--prompt", "é"}), "the prompt");
  expect_wrong_input(longspan({"generate", m, "--temperature", "-1"}), "temperature is -1");
  expect_wrong_input(longspan({"generate", m, "--top-p", "0"}), "top-p is 0");
}

TEST(BadInput, OtherDataIsNoticedOnResuming) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  ASSERT_EQ(longspan(small_training(m)).status, 0);
  write_bytes((scratch / "other").string(), read_bytes(kText) + ".");
  expect_wrong_input(
      longspan({"train", "text", "--out", m, "--resume", "--data", (scratch / "other").string()}),
      "is not the file");
}

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
      Process train({"train",        "text",     "--data",         kText, "--out",     m,
                     "--steps",      "1000000",  "--layers",       "1",   "--d-model", "16",
                     "--heads",      "2",        "--batch",        "2",   "--length",  "8",
                     "--eval-every", eval_every, "--eval-windows", "0"});
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
  const std::string sentence = fmt::format("{} is being trained by process {} on ", m, first.id());
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
        {"cost", "--config", path},
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

}  // namespace
}  // namespace longspan::testing
