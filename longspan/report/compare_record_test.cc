#include "longspan/report/compare_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "longspan/base/error.h"

namespace longspan {
namespace compare_record_test {

using nlohmann::json;
using testing::HasSubstr;

CompareRecord example() {
  CompareRecord r;
  r.created = "2026-01-31T12:00:00Z";
  r.command = "longspan compare";
  r.machine = {"a \"CPU\"", 2, 2.5e10, "Linux", "AVX2"};
  r.settings.task = CompareTask::kTrain;
  r.lengths = {256, 512};
  r.roofline = {1.8e11, 2e10};
  CompareMechanism flash;
  flash.name = flash.spec = "flash";
  flash.kind = "exact";
  flash.crossover = CompareCrossover{3100.0, true, "faster from n ≈ 3,100"};
  flash.pattern = ComparePattern{1, 2, {{0, 1}}};
  r.mechanisms = {flash};
  ComparePoint p;
  p.mechanism = "flash";
  p.length = 256;
  p.status = PointStatus::kOk;
  p.time = CompareTime{0.1, 0.09, 0.12, 0.11, 0.1, 0.12, 5};
  p.memory = CompareMemory{4e5, 1e6, 1e6, std::nullopt};
  p.kinds = std::vector<KindTime>{{"matmul", 0.05, 100, 10, "compute"}};
  p.work = CompareWork{1, (1ULL << 60) + 1, 3};
  r.points = {p};
  r.prediction.time_median_error = 0.08;
  r.left_out = {{"full", 65536, "memory"}};
  r.conclusion = "flash is fastest";
  return r;
}

std::string message(const json& value) {
  try {
    compare_record_from("[compare] file", value);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(CompareRecord, ComesBackFromJsonAsItWas) {
  const json once = to_json(example());
  const CompareRecord back = compare_record_from("[compare]", once);
  EXPECT_EQ(to_json(back), once);
  EXPECT_EQ(back.points[0].work->flops, (1ULL << 60) + 1);
  EXPECT_EQ(back.points[0].memory->resident, std::nullopt);
  EXPECT_EQ(back.mechanisms[0].pattern->cells[0][1], 1);
  EXPECT_EQ(once["mechanisms"][0]["class"], "exact");
  EXPECT_EQ(once["format"], "longspan-compare");
  EXPECT_TRUE(once["points"][0]["error"].is_null());
}

TEST(CompareRecord, WhatIsNotANumberIsNull) {
  CompareRecord r = example();
  r.points[0].time->measured = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(to_json(r)["points"][0]["time"]["measured"].is_null());
}

TEST(CompareRecord, FindsAPoint) {
  const CompareRecord r = example();
  ASSERT_NE(r.find("flash", 256), nullptr);
  EXPECT_EQ(r.find("flash", 512), nullptr);
  EXPECT_EQ(r.find("full", 256), nullptr);
}

TEST(CompareRecord, SaysWhichValueIsWrong) {
  const json good = to_json(example());
  EXPECT_EQ(message(good), "");
  EXPECT_THAT(message(json::array()), HasSubstr("is not the record of a comparison"));
  json bad = good;
  bad["version"] = 7;
  EXPECT_THAT(message(bad), HasSubstr("version 7"));
  bad = good;
  bad["points"][0]["time"]["measured"] = "fast";
  EXPECT_EQ(message(bad), "[compare] file: 'points[0].time.measured' is \"fast\"; need a number");
  bad = good;
  bad["points"][0]["length"] = -1;
  EXPECT_THAT(message(bad), HasSubstr("'points[0].length' is -1; need a whole number from 0"));
  bad = good;
  bad["points"][0]["status"] = "fine";
  EXPECT_THAT(message(bad), HasSubstr("\"fine\"; need ok, refused, skipped or failed"));
  bad = good;
  bad["points"][0]["mechanism"] = "full";
  EXPECT_THAT(message(bad), HasSubstr("'full', which is not among the mechanisms"));
  bad = good;
  bad["mechanisms"][0]["pattern"]["rows"] = 2;
  EXPECT_THAT(message(bad), HasSubstr("the pattern of flash is not 2×2"));
  bad = good;
  bad.erase("points");
  EXPECT_THAT(message(bad), HasSubstr("has no 'points'"));
}

TEST(CompareRecord, PassesOverFieldsOfLaterVersions) {
  json later = to_json(example());
  later["settings"]["colour"] = "red";
  later["points"][0].erase("kinds");
  EXPECT_EQ(message(later), "");
}

}  // namespace compare_record_test
}  // namespace longspan
