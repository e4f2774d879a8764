// longspan list NAME: each entry of the registries explained.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longspan/attention/feature/performer.h"
#include "longspan/attention/registry.h"
#include "longspan/base/config.h"
#include "longspan/layers/branches.h"
#include "longspan/learning/rule.h"
#include "longspan/models/presets.h"
#include "longspan/tasks/registry.h"
#include "longspan/testing/command_line.h"

namespace longspan::testing {
namespace list_cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

nlohmann::json listed(std::string_view name) {
  const Outcome outcome = longspan({"list", std::string(name), "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return nlohmann::json::parse(outcome.out);
}

TEST(List, ExplainsEveryMechanism) {
  for (const Mechanism& m : mechanisms()) {
    SCOPED_TRACE(m.name);
    const std::string text = longspan({"list", std::string(m.name)}).out;
    EXPECT_THAT(text, AllOf(HasSubstr("equations\n"), HasSubstr("gives up"), HasSubstr("\n  can "),
                            HasSubstr("longspan pattern ")));
    const nlohmann::json json = listed(m.name);
    EXPECT_FALSE(json.at("equations").empty());
    // The page has the same options.
    const std::string page =
        read_bytes(std::filesystem::path(LONGSPAN_SOURCE_DIR) / json.at("page").get<std::string>());
    for (const nlohmann::json& option : json.at("options")) {
      EXPECT_NE(option.at("purpose"), "") << option;
      EXPECT_NE(option.at("values"), "") << option;
      EXPECT_THAT(page, HasSubstr(fmt::format("`{}`", option.at("name").get<std::string>())));
      EXPECT_THAT(text, HasSubstr(option.at("name").get<std::string>()));
    }
  }
}

TEST(List, SaysWhatAnOptionMayBe) {
  const nlohmann::json json = listed("performer");
  const auto option = [&](std::string_view name) {
    for (const nlohmann::json& o : json.at("options")) {
      if (o.at("name") == name) return o;
    }
    return nlohmann::json();
  };
  EXPECT_EQ(option("orthogonal").at("values"), listed_names<Orthogonal>());
  EXPECT_EQ(option("redraw").at("default"), "1000");
  EXPECT_THAT(option("redraw").at("values").get<std::string>(), HasSubstr("a whole number"));
}

TEST(List, ExamplesRun) {
  for (const Mechanism& m : mechanisms()) {
    const nlohmann::json json = listed(m.name);
    for (const std::string example : json.at("examples")) {
      std::vector<std::string> words = split_list(example, ' ');
      ASSERT_EQ(words.front(), "longspan");
      words.erase(words.begin());
      if (words.front() == "train") continue;
      const Outcome outcome = longspan(words);
      EXPECT_EQ(outcome.status, 0) << example << ": " << outcome.err;
    }
  }
}

TEST(List, ExplainsEverythingElse) {
  for (const BranchKind& b : branch_kinds()) {
    EXPECT_EQ(listed(b.name).at("summary"), b.summary);
    if (b.page.empty()) continue;
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(LONGSPAN_SOURCE_DIR) / b.page));
  }
  EXPECT_EQ(listed("conv").at("options")[0].at("name"), "width");
  EXPECT_EQ(listed("experts").at("options").size(), 21);
  for (const Preset& p : presets()) EXPECT_EQ(listed(p.name).at("source"), p.source);
  for (const RuleEntry& r : rules()) EXPECT_EQ(listed(r.name).at("summary"), r.summary);
  for (const TaskEntry& t : tasks()) {
    const nlohmann::json json = listed(t.name);
    EXPECT_EQ(json.at("options").size(), t.options().size()) << t.name;
    const std::string page =
        read_bytes(std::filesystem::path(LONGSPAN_SOURCE_DIR) / json.at("page").get<std::string>());
    for (const nlohmann::json& option : json.at("options")) {
      EXPECT_THAT(page, HasSubstr(fmt::format("`--{}`", option.at("name").get<std::string>())))
          << t.name;
    }
  }
  expect_wrong_input(longspan({"list", "bigbrd"}), "did you mean 'bigbird'?");
}

}  // namespace list_cli_test
}  // namespace longspan::testing
