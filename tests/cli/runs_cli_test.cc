// Runs from the command line: options that mean nothing, resuming, divergence, help of a task.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longspan/tasks/registry.h"
#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace runs_cli_test {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Words = std::vector<std::string>;

const std::string kImages = LONGSPAN_SOURCE_DIR "/data/mnist-small";

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// A tiny run of each task.
Words copy_run(const std::string& out) {
  return {"train",     "copy",      "--out",   out,       "--steps", "4",         "--length",
          "6",         "--symbols", "5",       "--batch", "4",       "--layers",  "1",
          "--d-model", "16",        "--heads", "2",       "--quiet", "--threads", "1"};
}
Words image_run(const std::string& out) {
  return {"train",   "images", "--data",   kImages, "--out",   out,         "--steps", "2",
          "--batch", "4",      "--layers", "1",     "--quiet", "--threads", "1"};
}

// "the task images; need text or mlm", of the tasks that have the option, as the registry lists them.
std::string another_task(std::string_view task, std::string_view option) {
  Words having;
  for (const TaskEntry& entry : tasks()) {
    if (entry.has_option(option)) having.emplace_back(entry.name);
  }
  const std::string last = having.back();
  having.pop_back();
  return fmt::format("the task {}; need {} or {}", task, fmt::join(having, ", "), last);
}

struct Vain {
  Words options;
  std::string sentence;
};

void expect_vain(const Words& run, const std::string& out, const std::vector<Vain>& all) {
  for (const Vain& vain : all) {
    SCOPED_TRACE(vain.options.front());
    expect_wrong_input(longspan(run + vain.options), "[train] " + vain.sentence);
    EXPECT_FALSE(std::filesystem::exists(out));
  }
}

TEST(OptionsInVain, AreRefusedByName) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  const std::string transformers = " with the model mlp; need encoder, decoder or encoder-decoder";
  std::vector<Vain> of_transformers;
  for (const Words& options :
       {Words{"--attention", "full"}, Words{"--heads", "2"}, Words{"--kv-heads", "2"},
        Words{"--d-model", "8"}, Words{"--d-ff", "8"}, Words{"--feed-forward", "dense"},
        Words{"--wiring", "pre"}, Words{"--norm", "rms"}, Words{"--gated"},
        Words{"--positions", "none"}, Words{"--checkpointing"}, Words{"--frozen-layers", "0"},
        Words{"--lora-rank", "2"}, Words{"--lora-alpha", "2"}, Words{"--untied"},
        Words{"--init-deviation", "0.1"}}) {
    of_transformers.push_back({options, options.front() + transformers});
  }
  expect_vain(image_run(m), m, of_transformers);
  expect_vain(image_run(m), m,
              {{{"--patch", "4"}, "--patch with the model mlp, which reads pixels; need encoder"},
               {{"--stages", "1|1"}, "--stages with the model mlp; need encoder"},
               {{"--length", "4"}, "--length with " + another_task("images", "length")},
               {{"--rule", "pepita", "--injection", "input"},
                "--injection with the head classifier; need lm"},
               {{"--rule", "pepita", "--learners", "all"}, "--learners" + transformers},
               {{"--epochs", "1"}, "--epochs with --steps; need one of them"}});
  const std::string feedback = " with the rule bp; need pepita or mempepita";
  expect_vain(
      copy_run(m), m,
      {{{"--hidden", "8"}, "--hidden with the model decoder; need mlp"},
       {{"--decoder-layers", "1"}, "--decoder-layers with the model decoder; need encoder-decoder"},
       {{"--rule", "pepita", "--error-space", "model"},
        "--error-space with the model decoder; need encoder-decoder"},
       {{"--stages", "1|1"}, "--stages with the model decoder; need encoder"},
       {{"--lora-alpha", "2"}, "--lora-alpha with no adapters; need --lora-rank above 0"},
       {{"--last-layer", "standard"}, "--last-layer" + feedback},
       {{"--injection", "input"}, "--injection" + feedback},
       {{"--branch-signal", "sum"}, "--branch-signal" + feedback},
       {{"--learners", "all"}, "--learners" + feedback},
       {{"--feedback-scale", "0.1"}, "--feedback-scale" + feedback},
       {{"--rule", "fa", "--feedback-scale", "0.1"},
        "--feedback-scale with the rule fa; need pepita or mempepita"},
       {{"--momentum", "0.9"}, "--momentum with the optimizer adamw; need momentum"},
       {{"--optimizer", "sgd", "--beta1", "0.9"},
        "--beta1 with the optimizer sgd; need adam or adamw"},
       {{"--optimizer", "momentum", "--beta2", "0.9"},
        "--beta2 with the optimizer momentum; need adam or adamw"},
       {{"--schedule", "constant", "--lr-floor", "0"},
        "--lr-floor with the schedule constant; need linear or cosine"},
       {{"--schedule", "constant", "--schedule-steps", "5"},
        "--schedule-steps with the schedule constant; need linear or cosine"},
       {{"--data", kText}, "--data with " + another_task("copy", "data")},
       {{"--eval-every", "0", "--eval-windows", "5"},
        "--eval-windows with no validations; need --eval-every above 0"},
       {{"--eval-every", "0", "--patience", "5"},
        "--patience with no validations; need --eval-every above 0"}});
  expect_vain({"train", "text", "--data", kText, "--out", m}, m,
              {{{"--epochs", "1"},
                "--epochs with text, whose sequences are drawn anew for ever; need --steps"},
               {{"--symbols", "5"}, "--symbols with the task text; need copy, recall or reverse"}});
  const Words encoder = {"--model", "encoder", "--heads", "2", "--d-model", "16"};
  expect_vain(image_run(m) + encoder, m,
              {{{"--untied"}, "--untied with the head classifier; need lm"}});
}

TEST(OptionsInVain, AreRefusedByEvalAndGenerate) {
  const TemporaryDirectory scratch;
  const std::string images = (scratch / "images").string();
  const std::string copy = (scratch / "copy").string();
  ASSERT_EQ(longspan(image_run(images) + Words{"--hidden", "8"}).status, 0);
  ASSERT_EQ(longspan(copy_run(copy)).status, 0);
  expect_wrong_input(longspan({"eval", images, "--length", "4"}),
                     "[eval] --length with " + another_task("images", "length"));
  expect_wrong_input(longspan({"eval", copy, "--data", kText}),
                     "[eval] --data with " + another_task("copy", "data"));
  expect_wrong_input(longspan({"eval", images, "--memory", "4"}),
                     "[eval] --memory with the model mlp, which reads no segments; need decoder");
  expect_wrong_input(longspan({"eval", copy, "--memory", "4"}),
                     "[eval] --memory with flash, which remembers nothing");
  expect_wrong_input(longspan({"generate", images}), "[images] its models read no text");
  for (const char* option : {"--top-k", "--top-p", "--seed"}) {
    expect_wrong_input(
        longspan({"generate", copy, "--prompt", "1 2", "--temperature", "0", option, "1"}),
        fmt::format("[generate] {} with --temperature 0, which draws nothing", option));
  }
}

TEST(OptionsInVain, AreNotThoseThatMeanSomething) {
  const TemporaryDirectory scratch;
  const auto trains = [&](const Words& arguments) {
    const Outcome outcome = longspan(arguments + Words{"--overwrite"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  };
  const std::string m = (scratch / "m").string();
  trains(copy_run(m) + Words{"--optimizer", "momentum", "--momentum", "0.5", "--lora-rank", "2",
                             "--lora-alpha", "4", "--schedule", "linear", "--lr-floor", "0"});
  trains(copy_run(m) + Words{"--rule", "pepita", "--last-layer", "standard", "--injection", "input",
                             "--branch-signal", "sum", "--learners", "stream", "--feedback-scale",
                             "0.1", "--beta1", "0.8", "--untied"});
  trains(image_run(m) + Words{"--model", "encoder", "--patch", "7", "--heads", "2", "--d-model",
                              "16", "--attention", "full"});
  trains({"train", "images", "--data", kImages, "--out", m, "--epochs", "1", "--batch", "500",
          "--hidden", "8", "--layers", "1", "--quiet"});
}

TEST(Help, OfATaskHasItsOptionsOnly) {
  const std::string all = longspan({"train", "--help"}).out;
  EXPECT_THAT(all, AllOf(HasSubstr("--attention"), HasSubstr("--lr"), HasSubstr("--resume")));
  for (const char* own : {"--data", "--symbols", "--patch", "--hidden", "--decoder-layers",
                          "--stages", "--epochs", "--length"}) {
    EXPECT_THAT(all, Not(HasSubstr(fmt::format("  {} ", own)))) << own;
  }
  for (const char* task : {"  text ", "  images ", "  copy ", "  reverse "}) {
    EXPECT_THAT(all, HasSubstr(task));
  }
  struct Case {
    const char* task;
    Words has;
    Words lacks;
  };
  const std::vector<Case> cases = {
      {"text",
       {"--data", "--vocabulary", "--length", "The text file"},
       {"--patch", "--symbols", "--hidden", "--stages", "--epochs", "train images"}},
      {"images",
       {"--data", "--model", "--patch", "--hidden", "--stages", "--epochs", "--heads"},
       {"--symbols", "--length", "--vocabulary", "--decoder-layers", "train copy"}},
      {"copy", {"--length", "--symbols", "--held-out"}, {"--data", "--patch", "--decoder-layers"}},
      {"reverse", {"--length", "--decoder-layers"}, {"--data", "--stages", "--hidden"}}};
  for (const Case& c : cases) {
    for (const Words& order :
         {Words{"train", c.task, "--help"}, Words{"train", "--help", c.task}}) {
      const Outcome help = longspan(order);
      EXPECT_EQ(help.status, 0);
      for (const std::string& word : c.has) EXPECT_THAT(help.out, HasSubstr(word)) << c.task;
      for (const std::string& word : c.lacks) {
        const std::string shown = word.starts_with('-') ? "  " + word + " " : word;
        EXPECT_THAT(help.out, Not(HasSubstr(shown))) << c.task;
      }
    }
  }
  expect_wrong_input(longspan({"train", "txt", "--help"}), "did you mean 'text'?");
}

TEST(Resume, GoesOnToTheTargetOfTheRun) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  ASSERT_EQ(longspan(copy_run(m)).status, 0);
  const Outcome done = longspan({"train", "copy", "--out", m, "--resume"});
  EXPECT_EQ(done.status, 0);
  EXPECT_EQ(done.out, m + " is at step 4, and 4 were asked for; a larger --steps goes on\n");
  EXPECT_EQ(done.err, "");
  const Outcome changed = longspan({"train", "copy", "--out", m, "--resume", "--steps", "6", "--lr",
                                    "0.0005", "--eval-every", "0"});
  EXPECT_EQ(changed.status, 0) << changed.err;
  EXPECT_THAT(changed.err, AllOf(HasSubstr("at step 4 of 6\n"),
                                 HasSubstr("from now on --steps 6 instead of 4\n"),
                                 HasSubstr("from now on --lr 0.0005 instead of 0.001\n"),
                                 HasSubstr("from now on --eval-every 0 instead of 500\n")));
  EXPECT_THAT(changed.out, HasSubstr("checkpoint of step 6 "));
  const json result = json::parse(
      longspan({"train", "copy", "--out", m, "--resume", "--steps", "7", "--json"}).out);
  EXPECT_EQ(result["changes"]["--steps"]["before"], "6");
  EXPECT_EQ(result["step"], 7);
  EXPECT_EQ(result["steps"], 7);
  expect_wrong_input(longspan({"train", "copy", "--out", m, "--resume", "--overwrite"}),
                     "[train] --overwrite with --resume; need one of them");
}

// Whatever shapes the model, the batches or the optimiser's averages.
TEST(Resume, RefusesByNameWhatCannotChange) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  ASSERT_EQ(longspan(copy_run(m)).status, 0);
  const Words same = copy_run(m) + Words{"--resume"};
  const Outcome again = longspan(same);
  EXPECT_EQ(again.status, 0) << again.err << "the same values are no change";
  const std::vector<Words> others = {{"--attention", "full"},
                                     {"--layers", "2"},
                                     {"--d-model", "32"},
                                     {"--heads", "4"},
                                     {"--kv-heads", "1"},
                                     {"--d-ff", "8"},
                                     {"--feed-forward", "experts"},
                                     {"--wiring", "post"},
                                     {"--norm", "rms"},
                                     {"--activation", "relu"},
                                     {"--gated"},
                                     {"--positions", "none"},
                                     {"--dropout", "0.1"},
                                     {"--no-bias"},
                                     {"--checkpointing"},
                                     {"--frozen-layers", "1"},
                                     {"--lora-rank", "2"},
                                     {"--untied"},
                                     {"--rule", "fa"},
                                     {"--optimizer", "sgd"},
                                     {"--weight-decay", "0"},
                                     {"--beta1", "0.5"},
                                     {"--beta2", "0.5"},
                                     {"--seed", "3"},
                                     {"--batch", "5"},
                                     {"--accumulate", "2"},
                                     {"--length", "8"},
                                     {"--symbols", "7"},
                                     {"--held-out", "9"}};
  const std::string before = read_bytes(m + "/model.safetensors");
  for (const Words& other : others) {
    const Outcome outcome =
        longspan(Words{"train", "copy", "--out", m, "--resume", "--steps", "9"} + other);
    expect_wrong_input(outcome, fmt::format("[train] {} ", other.front()));
    EXPECT_THAT(outcome.err, HasSubstr("cannot change that")) << other.front();
  }
  EXPECT_EQ(read_bytes(m + "/model.safetensors"), before);
}

TEST(Resume, KnowsOtherImages) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  ASSERT_EQ(longspan(image_run(m) + Words{"--hidden", "8"}).status, 0);
  const std::string moved = (scratch / "moved").string();
  std::filesystem::copy(kImages, moved);
  const Words resume = {"train", "images", "--out", m, "--resume", "--data", moved, "--steps"};
  EXPECT_EQ(longspan(resume + Words{"3"}).status, 0) << "the same, elsewhere";
  expect_wrong_input(longspan(resume + Words{"4", "--hidden", "9"}), "[train] --hidden 9 ");
  for (const auto& file : std::filesystem::directory_iterator(moved)) {
    std::string bytes = read_bytes(file.path());
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_bytes(file.path(), bytes);
  }
  expect_wrong_input(longspan(resume + Words{"4"}), "is not what");
}

TEST(Divergence, IsAFailureWithItsStepAndLayer) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  const Words run =
      copy_run(m) + Words{"--optimizer",    "sgd",        "--lr",    "1000", "--warmup",     "0",
                          "--weight-decay", "1000",       "--clip",  "0",    "--save-every", "1",
                          "--overwrite",    "--schedule", "constant"};
  Words longer = run;
  longer[5] = "50";  // steps
  const Outcome text = longspan(longer);
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.err,
              AllOf(HasSubstr("longspan: [train] diverged at step "), HasSubstr(" not finite"),
                    HasSubstr("keeps the checkpoint of step "), Not(HasSubstr("--lr"))));
  EXPECT_EQ(std::count(text.err.begin(), text.err.end(), '\n'), 1) << text.err;
  const json eval = json::parse(longspan({"eval", m, "--json"}).out);
  EXPECT_TRUE(eval["loss"].is_number()) << "the checkpoint is one whose loss was finite";

  const Outcome outcome = longspan(longer + Words{"--json"});
  EXPECT_EQ(outcome.status, 1);
  const json result = json::parse(outcome.out);
  EXPECT_TRUE(result["diverged"]);
  EXPECT_GT(result["divergence"]["step"], result["step"]);
  EXPECT_EQ(result["step"], eval["step"]);
  EXPECT_FALSE(result["divergence"]["layer"].get<std::string>().empty());
  EXPECT_TRUE(result["divergence"]["in"].is_string());
}

TEST(Images, AreCounted) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "m").string();
  const Outcome text = longspan(image_run(m) + Words{"--hidden", "8"});
  EXPECT_THAT(text.out, AllOf(HasSubstr(" images/s"), Not(HasSubstr("tokens"))));
  const json result =
      json::parse(longspan(image_run(m) + Words{"--hidden", "8", "--overwrite", "--json"}).out);
  EXPECT_TRUE(result.contains("images_per_second"));
  EXPECT_FALSE(result.contains("tokens_per_second"));
  EXPECT_TRUE(json::parse(longspan(copy_run(m) + Words{"--overwrite", "--json"}).out)
                  .contains("tokens_per_second"));
}

TEST(Data, AreFoundAgainFromElsewhere) {
  const TemporaryDirectory scratch;
  std::filesystem::create_directories(scratch / "a" / "b");
  write_bytes(scratch / "a" / "book.txt", read_bytes(kText).substr(0, 10000));
  const auto shell = [&](const std::string& directory, const std::string& command) {
    const int status = std::system(fmt::format("cd '{}' && '{}/longspan' {} > '{}' 2>&1",
                                               (scratch / directory).string(), LONGSPAN_BINARY_DIR,
                                               command, (scratch / "said").string())
                                       .c_str());
    return Outcome{.status = WEXITSTATUS(status), .out = read_bytes(scratch / "said")};
  };
  const std::string options =
      "--steps 2 --layers 1 --d-model 16 --heads 2 --batch 2 --length 8 --eval-every 0";
  ASSERT_EQ(shell("a", "train text --data book.txt --out m " + options).status, 0);
  EXPECT_EQ(shell("a/b", "eval ../m").status, 0);
  EXPECT_EQ(shell("a/b", "train text --out ../m --resume --steps 3").status, 0);
  // Another file of that name is not taken for it.
  write_bytes(scratch / "a" / "b" / "book.txt", "short");
  EXPECT_EQ(shell("a/b", "eval ../m").status, 0);
  std::filesystem::rename(scratch / "a" / "book.txt", scratch / "a" / "b" / "moved.txt");
  std::filesystem::remove(scratch / "a" / "b" / "book.txt");
  const Outcome gone = shell("a/b", "eval ../m");
  EXPECT_EQ(gone.status, 2);
  EXPECT_THAT(gone.out, AllOf(HasSubstr("book.txt is not here"), HasSubstr("need --data")));
  EXPECT_EQ(shell("a/b", "eval ../m --data moved.txt").status, 0);
  EXPECT_EQ(shell("a/b", "generate ../m --tokens 3").status, 0) << "which needs no data";
}

TEST(Directories, ThatHoldNoRunHaveASentence) {
  const TemporaryDirectory scratch;
  const std::string theirs = (scratch / "theirs").string();
  std::filesystem::create_directory(theirs);
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(
        fmt::format("{}/tests/data/stories260k/{}", LONGSPAN_SOURCE_DIR, file),
        fmt::format("{}/{}", theirs, file));
  }
  const std::string config = read_bytes(theirs + "/config.json");
  const std::string empty = (scratch / "empty").string();
  std::filesystem::create_directory(empty);
  const std::string file = (scratch / "file").string();
  write_bytes(file, "text");
  const std::vector<std::pair<std::string, std::string>> places = {
      {theirs, "has a model of another program; need a directory that longspan train wrote"},
      {empty, "has no model.safetensors; need a directory with"},
      {file, "is a file; need a directory"}};
  for (const auto& [place, sentence] : places) {
    for (const Words& command : {Words{"generate", place}, Words{"eval", place},
                                 Words{"train", "copy", "--resume", "--out", place}}) {
      expect_wrong_input(longspan(command), sentence);
    }
  }
  expect_wrong_input(longspan({"generate", ""}),
                     "[checkpoint] the directory has no name; need a trained model");
  expect_wrong_input(longspan({"eval", ""}), "[eval] checkpoint is empty; need a value");
  expect_wrong_input(longspan({"train", "copy", "--resume", "--out", ""}),
                     "[train] --out has no name; need a directory");
  for (const Words& how : {Words{}, Words{"--overwrite"}}) {
    expect_wrong_input(longspan(copy_run(theirs) + how), "a config.json of another program");
  }
  EXPECT_EQ(read_bytes(theirs + "/config.json"), config);
}

TEST(Interrupt, SaysAWholeCommandThatGoesOn) {
  const TemporaryDirectory scratch;
  const std::string m = (scratch / "it's mine").string();
  Words endless = copy_run(m) + Words{"--eval-every", "0", "--save-every", "3"};
  endless[5] = "200000";
  Process train(endless);
  while (!std::filesystem::exists(m + "/config.json")) usleep(10000);
  usleep(200000);
  train.signal(SIGINT);
  const Outcome stopped = train.wait();
  EXPECT_EQ(stopped.status, 128 + SIGINT);
  const std::string says = "go on with: ";
  const std::size_t at = stopped.out.find(says);
  ASSERT_NE(at, std::string::npos) << stopped.out;
  std::string command = stopped.out.substr(at + says.size());
  command = command.substr(0, command.find('\n'));
  EXPECT_THAT(command, HasSubstr("it'\\''s mine' --resume"));
  // As a shell reads it; a target close by, so that it ends.
  const json state = json::parse(longspan({"eval", m, "--json"}).out);
  const int target = state["step"].get<int>() + 3;
  const std::string line =
      fmt::format("'{}'/{} --steps {} --quiet > /dev/null", LONGSPAN_BINARY_DIR, command, target);
  EXPECT_EQ(std::system(line.c_str()), 0) << line;
  EXPECT_EQ(json::parse(longspan({"eval", m, "--json"}).out)["step"], target);
}

}  // namespace runs_cli_test
}  // namespace longspan::testing
