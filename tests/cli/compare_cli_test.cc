// longspan compare as a user runs it, on models that take no time: results, refusals, what is kept
// when it is interrupted, the disk is full, memory is refused or a process is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "longspan/base/parallel.h"
#include "longspan/io/json_file.h"
#include "longspan/testing/command_line.h"
#include "longspan/testing/even_calibration.h"
#include "longspan/testing/failing.h"

namespace longspan::testing {
namespace compare_cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

class Compare : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const TemporaryDirectory cache;
    setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
    usual_threads_ = thread_count();
    set_thread_count(1);
    // Which points fit a budget then does not depend on the machine.
    write_calibration(even_calibration());
  }
  static void TearDownTestSuite() {
    unsetenv("XDG_CACHE_HOME");
    set_thread_count(usual_threads_);
  }

  static bool has(const Arguments& words, const std::string& word) {
    return std::ranges::find(words, word) != words.end();
  }
  // A tiny model, unless `more` says otherwise.
  Arguments arguments(const Arguments& more) const {
    const std::vector<std::pair<std::string, std::string>> usual = {
        {"--threads", "1"}, {"--layers", "1"},   {"--d-model", "32"}, {"--heads", "2"},
        {"--d-ff", "64"},   {"--budget", "60s"}, {"--rounds", "2"},   {"--out", out()}};
    Arguments all = {"compare"};
    for (const auto& [name, value] : usual) {
      const bool idle = has(more, "--bare") && (name == "--layers" || name == "--d-ff");
      if (!idle && !has(more, name)) all.insert(all.end(), {name, value});
    }
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string out() const { return (scratch_ / "compare.json").string(); }
  Json saved() const { return Json::parse(read_bytes(out())); }
  Json measured(const Arguments& more) const {
    const Outcome outcome = longspan(arguments(more));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return saved();
  }

  TemporaryDirectory scratch_;
  inline static int usual_threads_ = 1;
};

Json point(const Json& record, const std::string& mechanism, int length) {
  for (const Json& p : record.at("points")) {
    if (p.at("mechanism") == mechanism && p.at("length") == length) return p;
  }
  ADD_FAILURE() << "no point of " << mechanism << " at " << length;
  return {};
}

TEST_F(Compare, MeasuresTimeMemoryErrorAndKinds) {
  const Json r = measured({"train", "--attention", "flash,full,linear", "--lengths", "32,64"});
  EXPECT_EQ(r["format"], "longspan-compare");
  EXPECT_EQ(r["settings"]["task"], "train");
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

// The processes that `parent` started.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream status(entry.path() / "status");
    pid_t id = 0;
    for (std::string word; status >> word;) {
      if (word == "Pid:") status >> id;
      if (word != "PPid:") continue;
      pid_t owner = 0;
      status >> owner;
      if (owner == parent) children.push_back(id);
      break;
    }
  }
  return children;
}

// Waits until it has that many, at most some seconds.
std::vector<pid_t> wait_for_children(pid_t parent, std::size_t count) {
  std::vector<pid_t> children;
  for (int i = 0; i < 500 && children.size() < count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    children = children_of(parent);
  }
  return children;
}

TEST_F(Compare, InterruptedKeepsWhatWasMeasured) {
  Process process(arguments({"--attention", "flash,linear", "--rounds", "200000", "--lengths",
                             "16,32", "--budget", "1h"}));
  // The first length would take forever: interrupt it within.
  ASSERT_EQ(wait_for_children(process.id(), 2).size(), 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  expect_wrong_input(longspan(arguments({"--attention", "flash", "--overwrite"})),
                     fmt::format("compare.json is being written by process {} on ", process.id()));
  process.signal(SIGTERM);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 128 + SIGTERM);
  EXPECT_THAT(outcome.err, HasSubstr("interrupted; go on with --add"));
  EXPECT_EQ(point(saved(), "flash", 16)["status"], "ok");
  EXPECT_EQ(point(saved(), "flash", 32)["status"], "skipped");
  EXPECT_THAT(outcome.out, HasSubstr("flash"));

  // What it says goes on with it, without its settings said again.
  const Outcome added =
      longspan({"compare", "--add", out(), "--threads", "1", "--rounds", "1", "--quiet"});
  EXPECT_EQ(added.status, 0) << added.err;
  const Json whole = saved();
  EXPECT_EQ(whole["points"].size(), 4);
  for (const char* name : {"flash", "linear"}) {
    EXPECT_EQ(point(whole, name, 32)["status"], "ok") << name;
  }
  for (const char* option : {"--batch", "--seed"}) {
    expect_wrong_input(longspan({"compare", "--add", out(), "--threads", "1", option, "2"}),
                       "were not measured alike");
  }
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

TEST_F(Compare, AFullDiskCostsTheFileAndNothingElse) {
  const Outcome outcome =
      longspan(arguments({"--attention", "flash,window,local,bigbird", "--lengths", "16"}),
               {.file_limit = 12'000});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the results were not saved"));
  EXPECT_THAT(outcome.out, HasSubstr("on this machine"));
  EXPECT_FALSE(std::filesystem::exists(out()));
}

TEST_F(Compare, RefusedMemoryIsARow) {
  const Outcome outcome =
      longspan(arguments({"train", "--bare", "--attention", "linear,full", "--lengths", "64,8192"}),
               {.memory_limit = 550'000'000});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const Json r = saved();
  EXPECT_EQ(point(r, "full", 64)["status"], "ok");
  const Json failed = point(r, "full", 8192);
  EXPECT_EQ(failed["status"], "failed") << failed;
  EXPECT_THAT(failed["reason"], HasSubstr("refused"));
  EXPECT_EQ(point(r, "linear", 8192)["status"], "ok");
}

TEST_F(Compare, AKilledProcessIsARow) {
  Process process(arguments(
      {"--attention", "flash", "--rounds", "200000", "--lengths", "16", "--budget", "1h"}));
  const std::vector<pid_t> children = wait_for_children(process.id(), 1);
  ASSERT_EQ(children.size(), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(children[0], SIGKILL);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 1) << "it was the only one";
  EXPECT_THAT(outcome.err, HasSubstr("every point failed; flash at n = 16: "));
  EXPECT_THAT(outcome.out, HasSubstr("nothing was measured"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("on this machine")));
  const Json p = point(saved(), "flash", 16);
  EXPECT_EQ(p["status"], "failed");
  EXPECT_THAT(p["reason"], HasSubstr("signal 9"));
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

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

class Advise : public Compare {
 protected:
  static Arguments question(const Arguments& more) {
    Arguments all = {"advise", "--threads", "1", "--d-model", "32", "--heads", "2"};
    if (!has(more, "--bare")) all.insert(all.end(), {"--layers", "1", "--d-ff", "64"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

// The last line is a command; it is run as it stands, but for where its results go.
TEST_F(Advise, PrintsACommandThatRuns) {
  for (const Arguments& more :
       std::vector<Arguments>{{"--length", "64"},
                              {"--length", "96", "--causal", "--train"},
                              {"--length", "512", "--bare", "--error", "0.9", "--batch", "2"}}) {
    const Outcome outcome = longspan(question(more));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    std::string line = outcome.out.substr(0, outcome.out.size() - 1);
    line = line.substr(line.rfind('\n') + 1);
    Arguments command = words_of(line);
    ASSERT_EQ(command.at(0), "longspan") << outcome.out;
    command.erase(command.begin());
    for (const std::string& word : more) {
      if (word == "--train") continue;
      const bool asked = word == "--error" || word == "0.9";
      EXPECT_EQ(std::ranges::find(command, word) == command.end(), asked) << word;
    }
    command.insert(command.end(),
                   {"--budget", "60s", "--rounds", "1", "--out", out(), "--overwrite"});
    const Outcome ran = longspan(command);
    EXPECT_EQ(ran.status, 0) << line << ran.err;
    EXPECT_EQ(saved()["settings"]["d_ff"], has(more, "--bare") ? 2048 : 64);
    for (std::istringstream lines(outcome.out); std::getline(lines, line);) {
      EXPECT_TRUE(line.size() <= 84 || line.starts_with("longspan ")) << line;
    }
  }
}

TEST_F(Advise, LengthsBeyondAllAreRefusedAtOnce) {
  for (const char* length :
       {"4000000000", "1048577", "9223372036854775807", "18446744073709551615"}) {
    const Outcome outcome = longspan(question({"--length", length}));
    EXPECT_EQ(outcome.status, 2) << length << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
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

// Wherever the disk is full, a call of the system fails or the process is killed, the record and its
// page are the old ones or new ones, whole.
TEST_F(Compare, NoFaultOfTheDiskCostsTheRecord) {
  const Arguments usual =
      arguments({"--attention", "window", "--lengths", "16", "--rounds", "1", "--overwrite"});
  ASSERT_EQ(longspan(usual).status, 0);
  const std::string page = (scratch_ / "compare.html").string();
  const auto bytes =
      2 * static_cast<long>(std::filesystem::file_size(out()) + std::filesystem::file_size(page));
  for (const std::string how : {"full", "error", "kill"}) {
    int reached = 0;
    for (int cut = 0; cut < (how == "full" ? 64 : 24); ++cut) {
      Outcome outcome;
      {
        const Failing failing(how == "full" ? bytes * cut / 64 : 1 + cut, how.c_str());
        outcome = longspan(usual);
      }
      if (outcome.status != 0) ++reached;
      const int expected = how == "kill" ? 128 + SIGKILL : 1;
      EXPECT_TRUE(outcome.status == 0 || outcome.status == expected) << outcome.err;
      EXPECT_EQ(saved().at("format"), "longspan-compare") << how << " " << cut;
      EXPECT_THAT(read_bytes(page), ::testing::EndsWith("</html>\n")) << how << " " << cut;
    }
    EXPECT_GT(reached, 8) << how;
  }
}

// The same of what is made of a record.
TEST_F(Compare, NoFaultOfTheDiskCostsThePage) {
  ASSERT_EQ(longspan(arguments({"--attention", "window", "--lengths", "16"})).status, 0);
  const std::string page = (scratch_ / "compare.html").string();
  const std::string record = read_bytes(out());
  const auto bytes = static_cast<long>(std::filesystem::file_size(page));
  for (const std::string how : {"full", "error", "kill"}) {
    int reached = 0;
    for (int cut = 0; cut < (how == "full" ? 64 : 8); ++cut) {
      Outcome outcome;
      {
        const Failing failing(how == "full" ? bytes * cut / 64 : 1 + cut, how.c_str());
        outcome = longspan({"compare", "--render", out(), "--overwrite"});
      }
      if (outcome.status != 0) ++reached;
      EXPECT_EQ(read_bytes(out()), record);
      EXPECT_THAT(read_bytes(page), ::testing::EndsWith("</html>\n")) << how << " " << cut;
    }
    EXPECT_GE(reached, 3) << how;
  }
}

// Memory that is refused once, or from then on, at 500 places of a comparison: a sentence, and the
// record that was there.
TEST_F(Compare, RefusedMemoryIsASentence) {
  const Arguments usual =
      arguments({"--attention", "window", "--lengths", "16", "--rounds", "1", "--overwrite"});
  ASSERT_EQ(longspan(usual).status, 0);
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    Outcome outcome;
    {
      // The first ones one by one, then ever further apart, to the end of the program.
      const Failing failing(1 + i + i * i / 10, i % 2 == 0 ? "memory" : "no memory");
      outcome = longspan(usual);
    }
    ASSERT_TRUE(outcome.status == 0 || outcome.status == 1) << i << ": " << outcome.err;
    if (outcome.status == 1) {
      ++refused;
      EXPECT_THAT(outcome.err, HasSubstr("longspan: [")) << i;
    }
    EXPECT_EQ(saved().at("format"), "longspan-compare") << i;
  }
  EXPECT_GT(refused, 250);
}

}  // namespace compare_cli_test
}  // namespace longspan::testing
