// longspan advise as a user runs it.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "tests/cli/compare_cli.h"

namespace longspan::testing {
namespace advise_cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

class Advise : public CompareCli {
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

// Without a word about errors or tasks: exact attention, or what comes close to it.
TEST_F(Advise, SaysWhichQuestionItAnswers) {
  for (const char* length : {"4", "64", "4096"}) {
    const Outcome outcome = longspan(question({"--length", length, "--json"}));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json advice = Json::parse(outcome.out);
    EXPECT_EQ(advice["question"], "replace");
    bool exact = false;
    for (const Json& c : advice["candidates"]) {
      exact = exact || c["attention"] == "flash";
      if (!c["refused"].get<std::string>().empty()) continue;
      EXPECT_TRUE(c["exact"] || c["error"] <= 0.5) << c;
    }
    EXPECT_TRUE(exact);
    EXPECT_EQ(advice,
              Json::parse(longspan(question({"--length", length, "--replace", "--json"})).out));
  }
  const Outcome text = longspan(question({"--length", "4096"}));
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("To replace exact attention in a model that exists"),
                    HasSubstr("a model must be trained with them"), HasSubstr("ask with --task")));
  EXPECT_LT(text.out.find("\nflash "), text.out.find("must be trained with them"));
}

// By the records that ship, and by one's own.
TEST_F(Advise, ForANewModelQualityDecides) {
  const Outcome outcome = longspan(question({"--length", "2048", "--task", "recall"}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::string flat = outcome.out;
  std::ranges::replace(flat, '\n', ' ');
  EXPECT_THAT(flat,
              AllOf(HasSubstr("To train a new model: what learns recall as well"),
                    HasSubstr("accuracy"), HasSubstr("state"), HasSubstr("learned at n = 64"),
                    HasSubstr("at n = 2,048 nobody"), HasSubstr("longspan compare --task recall")));
  const std::string record = LONGSPAN_SOURCE_DIR "/data/quality/recall.json";
  Json own = Json::parse(read_bytes(record));
  own["settings"]["length"] = 2048;
  for (Json& t : own["trials"]) t["quality"] = t["mechanism"] == "linear" ? 0.9 : 0.5;
  write_bytes(out(), own.dump());
  const Arguments asked = {"--length", "2048", "--task", "recall", "--json", "--records"};
  const auto answer = [&](const std::string& files, const Arguments& more) {
    Arguments all = asked;
    all.push_back(files);
    all.insert(all.end(), more.begin(), more.end());
    const Outcome told = longspan(question(all));
    EXPECT_EQ(told.status, 0) << told.err;
    return Json::parse(told.out);
  };
  const Json by_own = answer(out(), {});
  EXPECT_EQ(by_own["pick"], "linear");
  EXPECT_EQ(by_own["question"], "task");
  EXPECT_EQ(by_own["causal"], true) << "a decoder's task";
  EXPECT_EQ(by_own["task"]["length"], 2048);
  EXPECT_EQ(by_own["candidates"][0]["quality"]["mean"], 0.9);
  EXPECT_GT(by_own["candidates"][0]["state"], 0);
  EXPECT_EQ(answer(out() + "," + record, {})["pick"], "linear") << "the nearest length";
  EXPECT_EQ(answer(record, {})["task"]["length"], 64);
  const Json lenient = answer(out(), {"--within", "0.5"});
  for (const Json& c : lenient["candidates"]) EXPECT_EQ(c["refused"], "") << c;
}

TEST_F(Advise, LengthsBeyondAllAreRefusedAtOnce) {
  for (const char* length :
       {"4000000000", "1048577", "9223372036854775807", "18446744073709551615"}) {
    const Outcome outcome = longspan(question({"--length", length}));
    EXPECT_EQ(outcome.status, 2) << length << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
}

}  // namespace advise_cli_test
}  // namespace longspan::testing
