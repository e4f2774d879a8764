// longspan compare as a user runs it, on models that take no time: results and refusals.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "longspan/io/json_file.h"
#include "tests/cli/compare_cli.h"

namespace longspan::testing {
namespace compare_cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Compare : public CompareCli {};

TEST_F(Compare, MeasuresTimeMemoryErrorAndKinds) {
  const Json r = measured({"train", "--attention", "flash,full,linear", "--lengths", "32,64"});
  EXPECT_EQ(r["format"], "longspan-compare");
  EXPECT_EQ(r["settings"]["phase"], "train");
  EXPECT_EQ(r["lengths"], Json({32, 64}));
  EXPECT_EQ(r["points"].size(), 6);
  for (const Json& p : r["points"]) {
    EXPECT_EQ(p["status"], "ok") << p;
    EXPECT_GT(p["time"]["measured"], 0.0);
    EXPECT_GT(p["time"]["predicted"], 0.0);
    EXPECT_EQ(p["time"]["rounds"], 2);
    EXPECT_EQ(p["memory"]["predicted"], p["memory"]["measured"]);
    EXPECT_GT(p["memory"]["resident"], 0.0);
    EXPECT_GT(p["work"]["maccs"], 0);
    EXPECT_GT(p["work"]["bytes"], 0);
    double seconds = 0.0;
    std::uint64_t flops = 0;
    for (const Json& k : p["kinds"]) {
      seconds += k["seconds"].get<double>();
      flops += k["flops"].get<std::uint64_t>();
    }
    EXPECT_NEAR(seconds / p["time"]["measured"].get<double>(), 1.0, 0.6);
    // The metered step counts the optimiser's work too, which the predicted work leaves out.
    EXPECT_GE(flops, p["work"]["flops"].get<std::uint64_t>());
  }
  EXPECT_LT(point(r, "flash", 64)["error"]["gradient"], 1e-5);
  EXPECT_GT(point(r, "linear", 64)["error"]["output"], 0.05);
  EXPECT_EQ(r["fusion"].size(), 2);
  EXPECT_FALSE(r["conclusion"].get<std::string>().empty());
  EXPECT_EQ(r["prediction"]["points"], 6);
}

TEST_F(Compare, WhatAMechanismCannotDoIsSaid) {
  const Json r =
      measured({"--causal", "--bare", "--attention", "flash,linformer", "--lengths", "48"});
  const Json refused = point(r, "linformer", 48);
  EXPECT_EQ(refused["status"], "refused");
  EXPECT_THAT(refused["reason"], HasSubstr("linformer"));
  EXPECT_TRUE(refused["time"].is_null());
  EXPECT_EQ(point(r, "flash", 48)["status"], "ok");
}

TEST_F(Compare, TheBudgetBoundsTheRun) {
  const Outcome outcome = longspan(
      arguments({"--attention", "flash,linear", "--lengths", "32,64,128", "--budget", "0.4s"}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Json r = saved();
  EXPECT_FALSE(r["left_out"].empty());
  EXPECT_EQ(point(r, "linear", 128)["status"], "skipped");
  EXPECT_GT(point(r, "linear", 128)["time"]["predicted"], 0.0);
  EXPECT_TRUE(point(r, "linear", 128)["time"]["measured"].is_null());
  EXPECT_THAT(outcome.out, HasSubstr("were left out and are predicted"));
}

TEST_F(Compare, IsRenderedAgainAndAddedTo) {
  const Outcome first = longspan(arguments({"--attention", "flash", "--lengths", "32"}));
  EXPECT_EQ(first.status, 0) << first.err;
  const Json once = saved();
  const Outcome again = longspan({"compare", "--render", out()});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, first.out);
  Arguments more = arguments({"--add", out(), "--attention", "flash,local", "--lengths", "32,64"});
  const Outcome added = longspan(more);
  EXPECT_EQ(added.status, 0) << added.err;
  const Json both = saved();
  EXPECT_EQ(both["points"].size(), 4);
  EXPECT_EQ(point(both, "flash", 32)["time"], point(once, "flash", 32)["time"]);
  EXPECT_EQ(point(both, "local", 64)["status"], "ok");
  const Outcome csv = longspan({"compare", "--render", out(), "--csv"});
  EXPECT_THAT(csv.out, HasSubstr("local,64,ok,"));
  const Outcome against = longspan({"compare", "--render", out(), "--against", out()});
  EXPECT_THAT(against.out, HasSubstr("time here / time there"));
  EXPECT_THAT(against.out, HasSubstr("1.00"));
  more.push_back("--batch");
  more.push_back("2");
  const Outcome unlike = longspan(more);
  EXPECT_EQ(unlike.status, 2);
  EXPECT_THAT(unlike.err, HasSubstr("were not measured alike"));
}

// Records are kept: what is there is neither measured over nor rewritten by showing it.
TEST_F(Compare, NothingIsReplacedUnasked) {
  const Arguments usual = arguments({"--attention", "flash", "--lengths", "32"});
  ASSERT_EQ(longspan(usual).status, 0);
  Json record = saved();
  record["remark"] = "by hand";
  write_bytes(out(), record.dump());
  const std::string before = read_bytes(out());
  expect_wrong_input(longspan(usual), "exists already; need another name, or --overwrite");
  EXPECT_EQ(read_bytes(out()), before);

  const auto page = scratch_ / "compare.html";
  write_bytes(page, "mine");
  EXPECT_EQ(longspan({"compare", "--render", out()}).status, 0);
  EXPECT_EQ(read_bytes(page), "mine");
  EXPECT_EQ(longspan({"compare", "--render", out(), "--overwrite"}).status, 0);
  EXPECT_THAT(read_bytes(page), HasSubstr("flash"));
  const auto other = scratch_ / "other.html";
  EXPECT_EQ(longspan({"compare", "--render", out(), "--out", other.string()}).status, 0);
  EXPECT_THAT(read_bytes(other), HasSubstr("flash"));
  EXPECT_EQ(read_bytes(out()), before) << "rendering writes no record";

  Arguments more = arguments({"--add", out(), "--attention", "flash", "--lengths", "64"});
  EXPECT_EQ(longspan(more).status, 0);
  EXPECT_EQ(saved()["remark"], "by hand") << "what is not known is not dropped";
  Arguments again = usual;
  again.push_back("--overwrite");
  EXPECT_EQ(longspan(again).status, 0);
  EXPECT_FALSE(saved().contains("remark"));
}

TEST_F(Compare, ANameThatIsNotGivenIsAFreeOne) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(scratch_.path());
  Arguments usual = arguments({"--attention", "flash", "--lengths", "32"});
  const auto given = std::ranges::find(usual, "--out");
  usual.erase(given, given + 2);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(longspan(usual).status, 0);
  std::filesystem::current_path(before);
  for (const char* name : {"compare.json", "compare-2.json", "compare-3.html"}) {
    EXPECT_TRUE(std::filesystem::exists(scratch_ / name)) << name;
  }
}

TEST_F(Compare, WrongInputIsOneSentence) {
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"--attention", "flesh"}, "flash"},
      {{"--attention", "flash,fnet"}, "cost and train take it as --attention fnet"},
      {{"--attention", "experts:experts=4,top=1"}, "take it as --feed-forward experts"},
      {{"--budget", "soon"}, "budget"},
      {{"--lengths", "12,x"}, "lengths"},
      {{"--heads", "5"}, "does not divide into 5 heads"},
      {{"--length", "64", "--lengths", "32"}, "need one of them"},
      {{"--from", "nowhere"}, "nowhere"},
      {{"--against", "nowhere.json"}, "nowhere.json"},
      {{"fly"}, "fly"},
  };
  for (const auto& [more, text] : cases) {
    const Outcome outcome = longspan(arguments(more));
    EXPECT_EQ(outcome.status, 2) << text;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
  write_bytes(scratch_ / "bad.json", R"({"format": "longspan-compare", "version": 1})");
  const Outcome bad = longspan({"compare", "--render", (scratch_ / "bad.json").string()});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("has no 'lengths'"));
}

// Whatever the task, as long as a model reads one sequence of its tokens.
TEST_F(Compare, ErrorsAreMeasuredOnTheTokensOfATask) {
  const std::string run = (scratch_ / "copy").string();
  const Outcome trained =
      longspan({"train", "copy", "--out", run, "--steps", "1", "--batch", "2", "--length", "16",
                "--layers", "1", "--d-model", "16", "--heads", "2", "--quiet"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Json r =
      measured({"--causal", "--attention", "flash,linear", "--lengths", "8", "--from", run});
  EXPECT_LT(point(r, "flash", 8)["error"]["output"], 1e-5);
  EXPECT_GT(point(r, "linear", 8)["error"]["output"], 1e-5);
  EXPECT_EQ(point(r, "linear", 8)["reason"], "");
}

TEST_F(Compare, ATaskOfTwoSequencesHasNoOneToShow) {
  const std::string run = (scratch_ / "reverse").string();
  const Outcome trained =
      longspan({"train", "reverse", "--out", run, "--steps", "1", "--batch", "2", "--length", "8",
                "--layers", "1", "--d-model", "16", "--heads", "2", "--quiet"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  expect_wrong_input(longspan(arguments({"--from", run})), "its task reverse has two sequences");
}

TEST_F(Compare, ARunOnImagesHasNoTokensToShow) {
  const std::string run = (scratch_ / "images").string();
  const Outcome trained =
      longspan({"train", "images", "--data", LONGSPAN_SOURCE_DIR "/data/mnist-small", "--out", run,
                "--steps", "1", "--batch", "2", "--hidden", "4", "--layers", "1", "--quiet"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Outcome outcome = longspan(arguments({"--from", run}));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("its task images gives no tokens"));
}

TEST_F(Compare, WhereNothingCanBeMeasuredIsSaid) {
  const Outcome outcome =
      longspan(arguments({"--attention", "linformer", "--causal", "--lengths", "32"}));
  EXPECT_FALSE(std::filesystem::exists(out()));
  expect_wrong_input(outcome, "nothing can be measured: [linformer] cannot be causal");
}

TEST_F(Compare, SettingsOfAMechanismArePredictedAsItIs) {
  const Outcome outcome =
      longspan(arguments({"--attention", "flash,window:window=4", "--lengths", "16"}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(point(saved(), "window:window=4", 16)["status"], "ok");
}

TEST_F(Compare, ErrorsAreMeasuredOnAModelsOwnTensors) {
  const std::string stories = LONGSPAN_SOURCE_DIR "/tests/data/stories260k";
  const Outcome outcome = longspan(arguments(
      {"--causal", "--attention", "flash,linear", "--lengths", "64,4096", "--from", stories}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("reads no tokenizer of " + stories));
  EXPECT_THAT(outcome.out, HasSubstr("the checkpoint's"));
  const Json r = saved();
  EXPECT_TRUE(r["settings"]["random_tokens"]);
  EXPECT_LT(point(r, "flash", 64)["error"]["output"], 1e-5);
  const double random = 0.75;  // about what it is on normal tensors
  EXPECT_NE(point(r, "linear", 64)["error"]["output"], random);
  EXPECT_TRUE(point(r, "linear", 4096)["error"].is_null());
  EXPECT_THAT(point(r, "linear", 4096)["reason"], HasSubstr("takes at most"));
  EXPECT_EQ(point(r, "linear", 4096)["status"], "ok");
}

// Before anything is measured, and not once for every point.
TEST_F(Compare, AModelThatCannotBeReadIsRefusedAtOnce) {
  const auto expect_refused = [&](const std::filesystem::path& folder, const std::string& text) {
    const Outcome outcome =
        longspan(arguments({"--attention", "flash", "--lengths", "8", "--from", folder.string()}));
    expect_wrong_input(outcome, text);
    EXPECT_EQ(outcome.out, "");
    EXPECT_FALSE(std::filesystem::exists(out()));
  };
  const auto pretrained = scratch_ / "pretrained";
  std::filesystem::copy(LONGSPAN_SOURCE_DIR "/tests/data/stories260k", pretrained);
  const std::string weights = read_bytes(pretrained / "model.safetensors");
  write_bytes(pretrained / "model.safetensors", weights.substr(0, weights.size() / 2));
  expect_refused(pretrained, "model.safetensors");
  std::filesystem::remove(pretrained / "model.safetensors");
  expect_refused(pretrained, "pretrained");
  std::filesystem::create_directory(scratch_ / "empty");
  expect_refused(scratch_ / "empty", "empty");

  const auto run = scratch_ / "copy";
  const Outcome trained =
      longspan({"train", "copy", "--out", run.string(), "--steps", "1", "--batch", "2", "--length",
                "16", "--layers", "1", "--d-model", "16", "--heads", "2", "--quiet"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    if (!entry.is_regular_file()) continue;
    const std::string bytes = read_bytes(entry.path());
    write_bytes(entry.path(), bytes.substr(0, bytes.size() / 2));
  }
  expect_refused(run, "copy");
}

TEST_F(Compare, RecordsOfOthersAreChecked) {
  ASSERT_EQ(longspan(arguments({"--attention", "flash", "--lengths", "32,64"})).status, 0);
  const std::string other = (scratch_ / "other.json").string();
  const std::vector<std::pair<const char*, const char*>> all = {
      {R"([{"op":"replace","path":"/settings/heads","value":0}])", "'settings.heads' is 0"},
      {R"([{"op":"replace","path":"/points/0/time/measured","value":-1}])",
       "'points[0].time.measured' is -1"},
      {R"([{"op":"replace","path":"/points/0/time/measured","value":0}])",
       "'points[0].time.measured' is 0"},
  };
  for (const auto& [patch, sentence] : all) {
    write_bytes(other, saved().patch(Json::parse(patch)).dump());
    expect_wrong_input(longspan({"compare", "--render", other}), sentence);
    expect_wrong_input(longspan({"compare", "--render", out(), "--against", other}), sentence);
    expect_wrong_input(longspan(arguments({"--add", other, "--attention", "flash"})), sentence);
  }
}

TEST_F(Compare, RecordsOfEarlierVersionsAreShown) {
  for (const char* path : {"/docs/results/transformer-linformer-performer.json",
                           "/apps/web/test/fixture.json", "/apps/web/test/empty.json"}) {
    const std::string page = (scratch_ / (std::filesystem::path(path).stem().string() + ".html"));
    const Outcome outcome =
        longspan({"compare", "--render", LONGSPAN_SOURCE_DIR + std::string(path), "--out", page});
    EXPECT_EQ(outcome.status, 0) << path << outcome.err;
  }
}

TEST_F(Compare, AsMuchAsARecordHolds) {
  std::string lengths = "1";
  for (int i = 2; i <= 65; ++i) lengths += "," + std::to_string(i);
  expect_wrong_input(longspan(arguments({"--lengths", lengths})), "need at most 64");
  expect_wrong_input(longspan(arguments({"--length", "4194304"})), "from 1 to 2^20");
}

// cost goes on without times; who needs them measures again.
TEST_F(Compare, AnUnusableCalibrationIsSaid) {
  const TemporaryDirectory cache;
  const std::string before = std::getenv("XDG_CACHE_HOME");
  setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  Calibration bad = even_calibration();
  bad.rates["add"].warm = {-1.0};
  write_calibration(bad);
  const Arguments cost = {
      "cost", "--encoder-layers", "1",  "--d-model", "32", "--heads", "2", "--vocab",
      "50",   "--length",         "16", "--threads", "1",  "--json"};
  const Outcome shown = longspan(cost);
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.err, HasSubstr("so no times are predicted: [calibrate]"));
  EXPECT_THAT(shown.err, HasSubstr("'rates.add.warm[0]' is -1.0; need a number from 0"));
  expect_wrong_input(longspan({"plan", "--flops", "1e15", "--device", "this", "--threads", "1"}),
                     "run longspan calibrate again");
  for (const Arguments& command : std::vector<Arguments>{
           {"advise", "--length", "64", "--threads", "1"}, arguments({"--attention", "flash"})}) {
    Process process(command);
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    process.signal(SIGKILL);
    EXPECT_THAT(process.wait().err, AllOf(HasSubstr("so the machine is measured again: "),
                                          HasSubstr("measuring this machine for 1 thread first")));
  }
  setenv("XDG_CACHE_HOME", before.c_str(), 1);
}

}  // namespace compare_cli_test
}  // namespace longspan::testing
