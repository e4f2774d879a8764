// longspan compare --task as a user runs it, on models that take no time.
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/cli/compare_cli.h"

namespace longspan::testing {
namespace compare_task_cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CompareTask : public CompareCli {
 protected:
  // Two tokens to copy, by a model of one layer.
  Arguments on_task(const Arguments& more) const {
    Arguments all = {"compare", "--threads", "1", "--out", out()};
    const std::vector<std::pair<std::string, std::string>> usual = {
        {"--task", "recall:length=16,pairs=2,symbols=16,held_out=40"},
        {"--d-model", "16"},
        {"--steps", "10"},
        {"--batch", "4"},
        {"--seeds", "2"}};
    for (const auto& [name, value] : usual) {
      if (!has(more, name) && !has(more, "--add")) all.insert(all.end(), {name, value});
    }
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Json trained(const Arguments& more) const {
    const Outcome outcome = longspan(on_task(more));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return saved();
  }
  static Json trial(const Json& record, const std::string& mechanism, int seed) {
    for (const Json& t : record.at("trials")) {
      if (t.at("mechanism") == mechanism && t.at("seed") == seed) return t;
    }
    ADD_FAILURE() << "no trial of " << mechanism << " from seed " << seed;
    return {};
  }
};

TEST_F(CompareTask, TrainsEveryMechanismFromEverySeed) {
  const Json r = trained({"--attention", "flash,linear,linformer"});
  EXPECT_EQ(r["format"], "longspan-quality");
  EXPECT_EQ(r["settings"]["task"], "recall");
  EXPECT_EQ(r["settings"]["options"]["pairs"], "2");
  EXPECT_EQ(r["settings"]["before"], "conv:width=2");
  EXPECT_EQ(r["settings"]["metric"], "accuracy");
  EXPECT_EQ(r["trials"].size(), 6);
  for (const char* mechanism : {"flash", "linear"}) {
    for (const int seed : {1, 2}) {
      const Json t = trial(r, mechanism, seed);
      EXPECT_EQ(t["status"], "ok") << t;
      EXPECT_GE(t["quality"], 0.0);
      EXPECT_GT(t["step_seconds"], 0.0);
      EXPECT_GT(t["predicted"], 0.0);
      EXPECT_GT(t["memory"], 0.0);
      EXPECT_GT(t["state"], 0.0);
      EXPECT_EQ(t["curve"].size(), 10);
    }
  }
  EXPECT_EQ(trial(r, "linformer", 1)["status"], "refused");
  EXPECT_THAT(r["conclusion"], ::testing::AnyOf(HasSubstr("learns recall best here"),
                                                HasSubstr("all learn recall alike here")));
  const std::string page = read_bytes(scratch_ / "compare.html");
  EXPECT_THAT(page, AllOf(HasSubstr("Quality against state"), ::testing::EndsWith("</html>\n")));
}

// The same seeds give the same models, whatever else is trained beside them.
TEST_F(CompareTask, GivesTheSameTwice) {
  const Json once = trained({"--attention", "flash,linear"});
  const Json twice = trained({"--attention", "linear,flash", "--overwrite"});
  for (const char* mechanism : {"flash", "linear"}) {
    for (const int seed : {1, 2}) {
      EXPECT_EQ(trial(once, mechanism, seed)["loss"], trial(twice, mechanism, seed)["loss"]);
    }
  }
}

TEST_F(CompareTask, WhatIsThereIsNotTrainedAgain) {
  const Json first = trained({"--attention", "flash", "--seeds", "1"});
  const Outcome outcome = longspan(
      {"compare", "--add", out(), "--attention", "flash,linear", "--seeds", "2", "--threads", "1"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("3 of 3 trials fit the budget"));
  const Json all = saved();
  EXPECT_EQ(all["trials"].size(), 4);
  EXPECT_EQ(trial(all, "flash", 1), trial(first, "flash", 1));
  expect_wrong_input(longspan({"compare", "--add", out(), "--attention", "flash", "--seeds", "2"}),
                     "has all of that; need more --attention or --seeds");
  expect_wrong_input(longspan({"compare", "--add", out(), "--steps", "11"}),
                     "the two were not trained alike");
  EXPECT_EQ(saved(), all);
  expect_wrong_input(
      longspan({"compare", "--add", out(), "--attention", "full", "--lengths", "64"}),
      "--lengths with --add; need one or the other");
}

// The record stays readable, and nothing that is not finite wins.
TEST_F(CompareTask, WhatDivergesIsARow) {
  const Outcome outcome = longspan(
      on_task({"--attention", "flash,linear", "--lr", "1000", "--steps", "30", "--seeds", "1"}));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("every trial failed; flash: it diverged"));
  for (const Json& t : saved()["trials"]) {
    EXPECT_EQ(t["status"], "failed");
    for (const Json& step : t["curve"]) EXPECT_TRUE(step["loss"].is_number());
  }
  EXPECT_EQ(longspan({"compare", "--render", out()}).status, 0);
}

TEST_F(CompareTask, DataThatChangedAreNotAddedTo) {
  const std::string data = out() + ".tsv";
  const auto write = [&](const char* third) {
    std::string lines;
    for (int i = 0; i < 20; ++i) {
      lines += fmt::format("{}\ta text {}\n", i % 3 == 0 ? third : i % 3 == 1 ? "b" : "c", i);
    }
    write_bytes(data, lines);
  };
  write("a");
  const Json r = trained({"--task", "text-class:length=16,data=" + data, "--attention", "flash"});
  EXPECT_EQ(r["settings"]["options"]["data"], data);
  expect_wrong_input(longspan({"compare", "--task", "text-class:length=16,data=" + data, "--out",
                               data, "--overwrite", "--attention", "flash"}),
                     "is what is read here and would be replaced; need another name");
  // Wherever they are.
  const std::string moved = out() + ".moved.tsv";
  std::filesystem::copy_file(data, moved);
  EXPECT_EQ(longspan({"compare", "--add", out(), "--task", "text-class:length=16,data=" + moved,
                      "--attention", "linear"})
                .status,
            0);
  write("d");
  std::filesystem::copy_file(data, moved, std::filesystem::copy_options::overwrite_existing);
  expect_wrong_input(longspan({"compare", "--add", out(), "--attention", "window"}),
                     "the two were not trained alike: data_checksum ");
}

// Images are read by a perceptron unless one says otherwise.
TEST_F(CompareTask, WhatHasNoAttentionIsNotCompared) {
  const std::string data =
      (std::filesystem::path(LONGSPAN_SOURCE_DIR) / "data/mnist-small").string();
  const Json r = trained(
      {"--task", "images:data=" + data, "--attention", "flash", "--steps", "1", "--seeds", "1"});
  EXPECT_EQ(r["settings"]["options"]["model"], "encoder");
  expect_wrong_input(longspan(on_task({"--task", "images:model=mlp,data=" + data, "--attention",
                                       "flash", "--overwrite"})),
                     "a perceptron has no attention that could be compared; need model=encoder");
}

TEST_F(CompareTask, TheBudgetBoundsTheRun) {
  const Outcome none = longspan(on_task({"--attention", "flash", "--budget", "0.000001s"}));
  expect_wrong_input(none, "no trial fits the budget");
  EXPECT_FALSE(std::filesystem::exists(out()));
}

TEST_F(CompareTask, IsShownAgainBesideAnother) {
  const Json r = trained({"--attention", "flash,linear", "--seeds", "1"});
  const std::string page = (scratch_ / "again.html").string();
  const Outcome shown = longspan({"compare", "--render", out(), "--against", out(), "--out", page});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("accuracy"), HasSubstr("against ")));
  EXPECT_THAT(read_bytes(page), HasSubstr("flash there"));
  EXPECT_EQ(saved(), r) << "rendering writes no record";
  EXPECT_THAT(longspan({"compare", "--render", out(), "--csv"}).out,
              HasSubstr("mechanism,seed,status,quality"));
  EXPECT_EQ(Json::parse(longspan({"compare", "--render", out(), "--json"}).out), r);
}

// What was trained stays, and --add goes on.
TEST_F(CompareTask, InterruptedOrKilledItLosesTheRunInProgress) {
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    std::filesystem::remove(out());
    std::filesystem::remove(scratch_ / "compare.html");
    Process process(on_task(
        {"--attention", "flash,linear,performer", "--seeds", "400", "--steps", "40", "--quiet"}));
    while (!std::filesystem::exists(out())) usleep(5000);
    usleep(100000);
    process.signal(signal);
    const Outcome outcome = process.wait();
    EXPECT_EQ(outcome.status, 128 + signal);
    const Json left = saved();
    EXPECT_EQ(left["trials"][0]["status"], "ok");
    EXPECT_THAT(read_bytes(scratch_ / "compare.html"), ::testing::EndsWith("</html>\n"));
    if (signal != SIGKILL) {
      EXPECT_THAT(outcome.out + outcome.err, HasSubstr("interrupted; go on with --add"));
    }
    const Outcome more = longspan({"compare", "--add", out(), "--attention", "flash", "--seeds",
                                   "2", "--threads", "1", "--quiet"});
    EXPECT_TRUE(more.status == 0 || more.err.find("has all of that") != std::string::npos)
        << more.err;
  }
}

TEST_F(CompareTask, TrainsWhatIsWrittenTwiceOnceAndFromTheLastSeed) {
  const Json r = trained({"--attention", "linear,linear:", "--seeds", "1", "--seed",
                          "18446744073709551615", "--lr", "0.01"});
  ASSERT_EQ(r["trials"].size(), 1);
  EXPECT_EQ(r["trials"][0]["seed"], 18446744073709551615U);
  EXPECT_EQ(r["trials"][0]["status"], "ok");
  EXPECT_EQ(r["settings"]["learning_rate"], 0.01) << "and not the nearest float";
}

TEST_F(CompareTask, WrongInputIsOneSentence) {
  const auto why = [&](const Arguments& more, const std::string& sentence) {
    expect_wrong_input(longspan(on_task(more)), sentence);
    EXPECT_FALSE(std::filesystem::exists(out())) << sentence;
  };
  why({"--task", "recal"}, "unknown task 'recal'; did you mean 'recall'?");
  why({"--task", "recall:pears=3"}, "pears");
  why({"--task", "recall:pairs"}, "--task has 'pairs'; need NAME:key=value,…");
  why({"--task", "recall:pairs=2,pairs=3"}, "--task has pairs twice");
  why({"--task", "recall:pairs=0"}, "pairs");
  why({"--task", "text"}, "[compare] text and no data; need --task text:data=FILE");
  why({"--task", "text:data=/nowhere"}, "/nowhere");
  why({"--attention", "flsh"}, "did you mean 'flash'?");
  why({"--attention", "linformer"}, "nothing can be trained");
  why({"--seeds", "0"}, "--seeds is '0'");
  why({"--heads", "3"}, "does not divide into 3 heads");
  why({"--lengths", "64"}, "--lengths with --task; need one or the other");
  why({"--rules"}, "need one or the other");
  why({"--layers", "1"}, "in which no mechanism has its turn");
  why({"--seed", "18446744073709551615"}, "need seeds up to 18446744073709551615");
  expect_wrong_input(longspan({"compare", "--seeds", "3"}),
                     "[compare] --seeds alone; need --task or --add");
}

}  // namespace compare_task_cli_test
}  // namespace longspan::testing
