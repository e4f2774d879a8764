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
