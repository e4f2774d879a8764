// What the command line says: results, and one sentence for each kind of bad input.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  const Outcome train = longspan(small_training(model, {"--json", "--init-deviation", "0.02"}));
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

TEST(CommandLine, GeneratesPastMaxLength) {
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
  expect_wrong_input(longspan(small_training(m, {"--rule", "backprop"})),
                     "unknown learning rule 'backprop'; need one of bp, pepita");
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
                     "--length is '0'; need a whole number from 1 to 1e7");
  expect_wrong_input(longspan({"train", "text", "--data", kText, "--out", m, "--length", "-1"}),
                     "--length");
  expect_wrong_input(longspan({"train", "text", "--data", kText, "--out", m, "--layers", "0"}),
                     "--layers is '0'; need a whole number from 1 to 4096");
  expect_wrong_input(longspan(small_training(m, {"--dropout", "1"})),
                     "--dropout is '1'; need a number from 0, below 1");
  expect_wrong_input(longspan(small_training(m, {"--lr", "-1"})),
                     "--lr is '-1'; need a number above 0, at most 1000");
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
  expect_wrong_input(longspan({"generate", m, "--temperature", "-1"}), "--temperature is '-1'");
  expect_wrong_input(longspan({"generate", m, "--top-p", "0"}), "--top-p is '0'");
}

TEST(BadInput, OtherDataIsNoticedOnResuming) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  ASSERT_EQ(longspan(small_training(m)).status, 0);
  write_bytes((scratch / "other").string(), read_bytes(kText) + ".");
  expect_wrong_input(
      longspan({"train", "text", "--out", m, "--resume", "--data", (scratch / "other").string()}),
      "is not what");
}

}  // namespace cli_test
}  // namespace longspan::testing
