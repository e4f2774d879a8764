#include "longspan/report/task_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "longspan/base/error.h"
#include "longspan/io/json_file.h"
#include "longspan/report/quality_summary.h"
#include "longspan/report/shipped_quality.h"

namespace longspan {
namespace task_advice_test {

using ::testing::HasSubstr;

void add_trials(QualityRecord& r, const std::string& mechanism, std::vector<double> qualities) {
  for (std::size_t i = 0; i < qualities.size(); ++i) {
    QualityTrial t;
    t.mechanism = mechanism;
    t.seed = i + 1;
    t.status = PointStatus::kOk;
    t.quality = qualities[i];
    t.step_seconds = 1.0;
    t.memory = 1e6;
    r.trials.push_back(t);
  }
}

QualityRecord record(std::uint64_t length) {
  QualityRecord r;
  r.settings.task = "recall";
  r.settings.options = {{"length", std::to_string(length)}};
  r.settings.length = length;
  r.settings.metric = "accuracy";
  r.settings.share = true;
  add_trials(r, "flash", {0.99, 0.97});
  add_trials(r, "linear", {0.90, 0.97});
  add_trials(r, "performer", {0.95, 0.96});
  add_trials(r, "window:window=16", {0.98, 0.98});
  add_trials(r, "local", {0.985, 0.98});
  return r;
}

std::string worse(const QualityRecord& r, const NewModel& model, const std::string& attention) {
  const std::vector<JudgedMechanism> all = judged_by(r, model);
  const auto it = std::ranges::find(all, attention, &JudgedMechanism::attention);
  return it == all.end() ? "not judged" : it->worse;
}

TEST(TaskAdvice, TheSpreadOfTheSeedsSaysWhatIsAsGood) {
  const QualityRecord r = record(64);
  const NewModel model{.length = 4096, .causal = true};
  EXPECT_EQ(judged_by(r, model).front().attention, "local");
  EXPECT_EQ(worse(r, model, "flash"), "");
  EXPECT_EQ(worse(r, model, "window:window=16"), "");
  EXPECT_EQ(worse(r, model, "linear"), "reaches 93.50 %, the best 98.25 %");
  NewModel lenient = model;
  lenient.within = 0.03;
  EXPECT_NE(worse(r, lenient, "linear"), "");
  EXPECT_EQ(worse(r, lenient, "performer"), "");
}

// Blocks of 128 are all there is at n = 64, and little at 4,096.
TEST(TaskAdvice, WhatSawEveryTokenWhereItWasJudgedSaysNothingOfLongerOnes) {
  const QualityRecord r = record(64);
  EXPECT_EQ(worse(r, {.length = 4096, .causal = true}, "local"),
            "saw every token where it was judged, n = 64, and would not here");
  EXPECT_EQ(worse(r, {.length = 64, .causal = true}, "local"), "");
  EXPECT_EQ(worse(r, {.length = 128, .causal = true}, "local"), "");
  QualityRecord old = r;
  old.settings.length.reset();
  EXPECT_THAT(worse(old, {.length = 4096, .causal = true}, "local"), HasSubstr("is not known"));
  EXPECT_EQ(worse(old, {.length = 4096, .causal = true}, "flash"), "");
}

TEST(TaskAdvice, WhatWasNotTrainedIsNotJudged) {
  QualityRecord r = record(64);
  for (QualityTrial& t : r.trials) {
    if (t.mechanism != "flash") t.status = PointStatus::kFailed;
  }
  EXPECT_EQ(judged_by(r, {.length = 64}).size(), 1);
  for (QualityTrial& t : r.trials) t.status = PointStatus::kFailed;
  EXPECT_THROW(judged_by(r, {.length = 64}), Error);
}

TEST(TaskAdvice, TheNearestLengthIsAskedAndWhatWasTrainedAlikeIsAdded) {
  QualityRecord more = record(64);
  more.settings.budget_seconds = 7.0;
  more.trials.clear();
  add_trials(more, "reformer", {0.5});
  QualityRecord copy = record(512);
  copy.settings.task = "copy";
  const std::vector<QualityRecord> all = {record(1024), record(64), more, copy};
  EXPECT_EQ(record_of_task(all, "recall", 2048).settings.length, 1024U);
  const QualityRecord near = record_of_task(all, "recall", 100);
  EXPECT_EQ(near.settings.length, 64U);
  EXPECT_NE(near.find("reformer", 1), nullptr);
  EXPECT_EQ(record_of_task(all, "recall", 1024).find("reformer", 1), nullptr);
  try {
    record_of_task(all, "listops", 64);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("no record of listops, but of copy, recall; need --records"));
  }
}

TEST(TaskAdvice, WhatFailedFromASeedIsNotTaken) {
  QualityRecord r = record(64);
  QualityTrial failed;
  failed.mechanism = "flash";
  failed.seed = 99;
  failed.status = PointStatus::kFailed;
  r.trials.push_back(failed);
  EXPECT_EQ(worse(r, {.length = 64, .causal = true, .within = 0.5}, "flash"),
            "failed from 1 of 3 seeds");
}

// What data/quality has is what the program has, and it is as this program would write it.
TEST(ShippedQuality, OpensAndIsCurrent) {
  const std::vector<QualityRecord> shipped = shipped_quality();
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(LONGSPAN_SOURCE_DIR "/data/quality")) {
    SCOPED_TRACE(entry.path());
    const nlohmann::json json = read_json(entry.path());
    QualityRecord r = quality_record_from("[quality]", json);
    summarize(r);
    EXPECT_TRUE(to_json(r) == json) << "write it anew with longspan compare --task";
    ++files;
    EXPECT_TRUE(std::ranges::any_of(
        shipped, [&](const QualityRecord& each) { return to_json(each) == json; }));
  }
  EXPECT_EQ(files, shipped.size());
}

TEST(ShippedQuality, SaysWhenAndHowItWasMeasured) {
  std::set<std::string> tasks;
  for (const QualityRecord& r : shipped_quality()) {
    SCOPED_TRACE(r.settings.task);
    tasks.insert(r.settings.task);
    EXPECT_EQ(r.created.size(), 20) << r.created;
    EXPECT_THAT(r.command, ::testing::StartsWith("longspan compare --task " + r.settings.task));
    EXPECT_TRUE(r.settings.length.has_value());
    std::size_t trained = 0;
    for (const Standing& standing : standings(r)) {
      EXPECT_NO_THROW(abilities_of(standing.mechanism));
      if (standing.trained >= 2) ++trained;
    }
    EXPECT_GE(trained, 8) << "mechanisms of two seeds or more";
    EXPECT_NE(r.find("flash", 1), nullptr) << "exact attention is what others are held against";
  }
  EXPECT_THAT(tasks, ::testing::IsSupersetOf({"copy", "recall"}));
}

}  // namespace task_advice_test
}  // namespace longspan
