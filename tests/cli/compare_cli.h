// What the tests of compare and advise share: a machine whose calibration is even, and tiny models.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "longspan/base/parallel.h"
#include "longspan/testing/command_line.h"
#include "longspan/testing/even_calibration.h"

namespace longspan::testing {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

class CompareCli : public ::testing::Test {
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

inline Json point(const Json& record, const std::string& mechanism, int length) {
  for (const Json& p : record.at("points")) {
    if (p.at("mechanism") == mechanism && p.at("length") == length) return p;
  }
  ADD_FAILURE() << "no point of " << mechanism << " at " << length;
  return {};
}

}  // namespace longspan::testing
