// longspan pattern: the picture in the terminal, as JSON and in files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace pattern_cli_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

TEST(Pattern, ShowsAWindow) {
  const Outcome outcome = longspan({"pattern", "window:window=4", "--length", "8"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(first_line(outcome.out), "www·····");
  EXPECT_THAT(outcome.out, HasSubstr("w window: 34 of 64 pairs"));
}

TEST(Pattern, ColoursByReason) {
  const Outcome outcome =
      longspan({"pattern", "bigbird:block=4,random=1", "--length", "64", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  const auto& pairs = json.at("pairs");
  // 16 blocks: 2 see all, 14 see 2 globals; of these 2 next to the ends have 2 more window blocks,
  // 12 have 3, each of the 14 one random block.
  EXPECT_EQ(pairs.at("global"), 16 * (2 * 16 + 14 * 2));
  EXPECT_EQ(pairs.at("window"), 16 * (2 * 2 + 12 * 3));
  EXPECT_EQ(pairs.at("random"), 16 * 14);
  EXPECT_EQ(json.at("rows").size(), 64U);
}

TEST(Pattern, ProbesWhatHasNoFixedPattern) {
  const Outcome outcome = longspan({"pattern", "flash", "--length", "5", "--causal"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("x····\nxx···\nxxx··\nxxxx·\nxxxxx\n"));
}

TEST(Pattern, WritesPictures) {
  const TemporaryDirectory directory;
  for (const std::string name : {"picture.svg", "picture.png"}) {
    const std::string path = (directory.path() / name).string();
    const Outcome outcome =
        longspan({"pattern", "longformer:window=8", "--length", "300", "--out", path});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(bytes, StartsWith(name == "picture.svg" ? "<svg" : "\x89PNG"));
    EXPECT_GT(bytes.size(), 1000U);
  }
}

TEST(Pattern, RefusesNonsense) {
  EXPECT_EQ(longspan({"pattern", "windo"}).status, 2);
  EXPECT_EQ(longspan({"pattern", "window", "--length", "0"}).status, 2);
  EXPECT_EQ(longspan({"pattern", "window", "--head", "9"}).status, 2);
  EXPECT_EQ(longspan({"pattern", "window", "--out", "picture.gif"}).status, 2);
  EXPECT_EQ(longspan({"pattern", "linformer", "--causal"}).status, 2);
  expect_wrong_input(longspan({"pattern", "fnet"}),
                     "fnet is no attention mechanism but another branch of a block");
  expect_wrong_input(longspan({"pattern", "experts:top=2"}), "as --feed-forward experts");
  expect_wrong_input(longspan({"pattern", "cross"}), "need a mechanism, see longspan list\n");
}

}  // namespace pattern_cli_test
}  // namespace longspan::testing
