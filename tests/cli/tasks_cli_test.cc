// Tasks from the command line: their options are flags, their metrics what eval prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace tasks_cli_test {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> train(const std::string& task, const std::string& out,
                               const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {
      "train", task,      "--out", out,       "--layers",  "1",  "--heads",   "2", "--batch",
      "8",     "--steps", "8",     "--quiet", "--d-model", "16", "--threads", "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(TaskCommands, CopyTrainsAndIsJudged) {
  const TemporaryDirectory scratch;
  const std::string model = (scratch / "m").string();
  const Outcome trained = longspan(train(
      "copy", model,
      {"--length", "8", "--symbols", "5", "--held-out", "10", "--eval-every", "4", "--json"}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const json result = json::parse(trained.out);
  ASSERT_EQ(result["validation"].size(), 2U);
  EXPECT_TRUE(result["validation"][0].contains("validation_accuracy"));
  EXPECT_FALSE(result["out_of_patience"]);
  const json quality = json::parse(longspan({"eval", model, "--json"}).out);
  EXPECT_EQ(quality["tokens"], 10 * 4);
  EXPECT_EQ(quality["loss"], result["validation"][1]["validation_loss"]);
  EXPECT_THAT(longspan({"eval", model}).out,
              AllOf(HasSubstr("10 validation sequences, step 8"), HasSubstr("  accuracy  ")));
  const Outcome text =
      longspan({"generate", model, "--prompt", "3 1 2", "--tokens", "3", "--quiet"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, ::testing::StartsWith("0 3 1 2 0 "));
  expect_wrong_input(longspan({"generate", model, "--prompt", "6"}),
                     "[copy] the symbol 6; need 1 to 5");
  expect_wrong_input(longspan({"eval", model, "--split", "test"}), "has no split test");
  expect_wrong_input(longspan({"train", "copy", "--out", model + "-epochs", "--epochs", "1"}),
                     "drawn anew for ever");
  expect_wrong_input(longspan({"eval", model, "--split", "tst"}), "did you mean 'test'?");
}

TEST(TaskCommands, QuietEvaluationsHaveNoNotes) {
  const TemporaryDirectory scratch;
  const std::string model = (scratch / "m").string();
  const std::string data = (scratch / "a.tsv").string();
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += i % 2 == 0 ? "cat\tmeow\n" : "dog\twoof\n";
  write_bytes(data, lines);
  const Outcome trained = longspan(
      train("text-class", model, {"--data", data, "--length", "8", "--positions", "learned"}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  write_bytes(data, lines + lines);
  EXPECT_THAT(longspan({"eval", model}).err, HasSubstr("is not what the model was trained on"));
  EXPECT_EQ(longspan({"eval", model, "--quiet"}).err, "");
}

TEST(TaskCommands, ReverseAnswers) {
  const TemporaryDirectory scratch;
  const std::string model = (scratch / "m").string();
  const Outcome trained =
      longspan(train("reverse", model, {"--length", "3", "--symbols", "4", "--eval-every", "0"}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const json quality = json::parse(longspan({"eval", model, "--json"}).out);
  EXPECT_EQ(quality["sequences"], 200);
  EXPECT_TRUE(quality.contains("sequence_accuracy"));
  EXPECT_FALSE(quality.contains("generated_exact"));
  const json answered = json::parse(longspan({"eval", model, "--generate", "200", "--json"}).out);
  EXPECT_EQ(answered["generated_exact"], quality["sequence_accuracy"]);
  EXPECT_THAT(longspan({"eval", model, "--generate", "5", "--beams", "2"}).out,
              HasSubstr(" of 5 written with 2 beams"));
  const json written = json::parse(
      longspan({"generate", model, "--prompt", "1 2 3", "--temperature", "0", "--json"}).out);
  EXPECT_LE(written["tokens"], 4);
  EXPECT_FALSE(written.contains("log_probability"));
  const auto searched = [&](const char* beams) {
    return json::parse(
        longspan({"generate", model, "--prompt", "1 2 3", "--beams", beams, "--json"}).out);
  };
  EXPECT_EQ(searched("1")["text"], written["text"]);
  EXPECT_LT(searched("3")["log_probability"], 0.0);
  EXPECT_GE(searched("3")["score"], searched("3")["log_probability"]);
  expect_wrong_input(longspan({"generate", model, "--prompt", "1 2 3 4"}),
                     "the model reads at most 3");
}

TEST(TaskCommands, AStudentIsComparedWithItsTeacher) {
  const TemporaryDirectory scratch;
  const std::string text = LONGSPAN_SOURCE_DIR "/data/tinyshakespeare.txt";
  const std::string teacher = (scratch / "teacher").string();
  const std::string student = (scratch / "student").string();
  const std::vector<std::string> data = {"--data", text,           "--length", "16",
                                         "--json", "--eval-every", "0"};
  ASSERT_EQ(longspan(train("mlm", teacher, data)).status, 0);
  std::vector<std::string> taught = data;
  taught.insert(taught.end(), {"--teacher", teacher, "--hidden-weight", "0.5"});
  const Outcome trained = longspan(train("mlm", student, taught));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const json result = json::parse(trained.out);
  EXPECT_GT(result["teacher"]["flops_per_step"], 0);
  EXPECT_LT(result["teacher"]["flops_per_step"], result["flops_per_step"]);
  const json quality =
      json::parse(longspan({"eval", student, "--teacher", teacher, "--pseudo", "2", "--json"}).out);
  EXPECT_GT(quality["teacher_kl"], 0.0);
  EXPECT_LT(quality["teacher_agreement"], 1.0);
  EXPECT_GT(quality["pseudo_perplexity"], 1.0);
  EXPECT_THAT(longspan({"eval", teacher, "--teacher", teacher, "--pseudo", "2"}).out,
              AllOf(HasSubstr("of 32 tokens, each hidden alone"), HasSubstr("100.00 %")));
  expect_wrong_input(
      longspan(train("mlm", teacher, {"--data", text, "--overwrite", "--teacher", teacher})),
      "is in --out, where the student replaces it; need another directory");
  expect_wrong_input(longspan(train("mlm", student + "2", {"--data", text, "--temperature", "3"})),
                     "[train] --temperature with no teacher; need --teacher");
  expect_wrong_input(
      longspan({"train", "mlm", "--out", student, "--resume", "--hidden-weight", "0.25"}),
      "[train] --hidden-weight 0.25 on resuming " + student + ", which has 0.5");
}

TEST(TaskCommands, TokensAreHiddenOfTasksThatHideThem) {
  const TemporaryDirectory scratch;
  const std::string model = (scratch / "m").string();
  ASSERT_EQ(longspan(train("copy", model, {"--eval-every", "0"})).status, 0);
  expect_wrong_input(longspan({"eval", model, "--pseudo", "3"}),
                     "[eval] --pseudo with the task copy; need mlm");
}

// Lines are numbered as the data are, whatever the order in which an evaluation takes them.
TEST(TaskCommands, PredictionsAreWhatTheAccuracyCounts) {
  const TemporaryDirectory scratch;
  const std::string model = (scratch / "m").string();
  const std::string file = (scratch / "p.jsonl").string();
  const Outcome trained = longspan(train("listops", model,
                                         {"--length", "60", "--above", "3", "--examples", "100",
                                          "--held-out", "30", "--eval-every", "0"}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const json quality = json::parse(
      longspan({"eval", model, "--split", "test", "--predictions", file, "--json"}).out);
  std::istringstream lines(read_bytes(file));
  std::set<int> examples;
  int right = 0;
  for (std::string line; std::getline(lines, line);) {
    const json one = json::parse(line);
    examples.insert(one["example"].get<int>());
    right += one["target"] == one["predicted"] ? 1 : 0;
    EXPECT_GT(one["probability"], 0.1 - 1e-6) << "of ten classes the likeliest";
    EXPECT_LE(one["probability"], 1.0);
  }
  EXPECT_EQ(examples.size(), 30U);
  EXPECT_EQ(*examples.rbegin(), 29);
  EXPECT_NEAR(quality["accuracy"].get<double>(), right / 30.0, 1e-9);
  expect_wrong_input(longspan({"eval", model, "--predictions", file}),
                     "exists already; need another name, or --overwrite");
  EXPECT_EQ(longspan({"eval", model, "--predictions", file, "--overwrite"}).status, 0);
  expect_wrong_input(longspan({"eval", model, "--overwrite"}), "--overwrite alone; need");
}

TEST(TaskCommands, OtherDataAreReadByTheNamesOfTheClasses) {
  const TemporaryDirectory scratch;
  const std::string model = (scratch / "m").string();
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    const std::string word = i % 3 == 0 ? "cat" : i % 3 == 1 ? "dog" : "owl";
    lines += word + "\t" + std::string(8, word.front()) + "\n";
  }
  write_bytes(scratch / "all.tsv", lines);
  const Outcome trained = longspan(
      {"train",     "text-class", "--out",        model, "--data",  (scratch / "all.tsv").string(),
       "--length",  "8",          "--layers",     "1",   "--heads", "2",
       "--d-model", "16",         "--batch",      "8",   "--steps", "60",
       "--lr",      "0.01",       "--eval-every", "0",   "--quiet", "--threads",
       "1"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  // Without cats, dogs would be the first class.
  const std::string fewer = (scratch / "fewer.tsv").string();
  write_bytes(fewer, "owl\toooooooo\ndog\tdddddddd\nowl\toooooooo\n");
  const json quality =
      json::parse(longspan({"eval", model, "--data", fewer, "--split", "all", "--json"}).out);
  EXPECT_EQ(quality["accuracy"], 1.0) << quality;
  EXPECT_EQ(quality["accuracy_of_class_owl"], 1.0);
  const std::string predictions = (scratch / "p.jsonl").string();
  longspan({"eval", model, "--predictions", predictions});
  const json first =
      json::parse(read_bytes(predictions).substr(0, read_bytes(predictions).find('\n')));
  EXPECT_EQ(first.at("target_class"), first.at("predicted_class"));
  EXPECT_EQ(longspan({"eval", model, "--length", "4"}).err, "") << "the data are what they were";
  write_bytes(fewer, "cow\tmoo\n");
  expect_wrong_input(longspan({"eval", model, "--data", fewer}), ":1: label 'cow' is none that is");
  for (const std::string& read : {model + "/model.safetensors", (scratch / "all.tsv").string()}) {
    expect_wrong_input(longspan({"eval", model, "--predictions", read, "--overwrite"}),
                       "is what is read here and would be replaced");
  }
}

TEST(TaskCommands, PredictionsOfPairsAreOnePerPair) {
  const TemporaryDirectory scratch;
  const std::string model = (scratch / "m").string();
  const std::string file = (scratch / "p.jsonl").string();
  const Outcome trained = longspan(
      train("retrieval", model,
            {"--length", "32", "--examples", "40", "--held-out", "15", "--eval-every", "0"}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const json quality = json::parse(
      longspan({"eval", model, "--split", "test", "--batch", "4", "--predictions", file, "--json"})
          .out);
  EXPECT_EQ(quality["pairs"], 15);
  std::istringstream lines(read_bytes(file));
  std::set<int> examples;
  int right = 0;
  for (std::string line; std::getline(lines, line);) {
    const json one = json::parse(line);
    EXPECT_EQ(one["target"], one["example"].get<int>() % 2) << "as they are drawn";
    EXPECT_FALSE(one.contains("position"));
    examples.insert(one["example"].get<int>());
    right += one["target"] == one["predicted"] ? 1 : 0;
  }
  EXPECT_EQ(examples.size(), 15U);
  EXPECT_NEAR(quality["accuracy"].get<double>(), right / 15.0, 1e-9);
}

TEST(TaskCommands, PatienceEndsARunAndTheBestStays) {
  const TemporaryDirectory scratch;
  const std::string model = (scratch / "m").string();
  const Outcome trained =
      longspan(train("copy", model,
                     {"--length", "8", "--symbols", "5", "--eval-every", "1", "--patience", "2",
                      "--keep-best", "--lr", "0.5", "--warmup", "0", "--json"}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const json result = json::parse(trained.out);
  const json best = json::parse(longspan({"eval", model + "/best", "--json"}).out);
  EXPECT_EQ(best["step"], result["best"]["step"]);
  EXPECT_EQ(best["loss"], result["best"]["loss"]);
  EXPECT_TRUE(result["out_of_patience"]);
}

}  // namespace tasks_cli_test
}  // namespace longspan::testing
