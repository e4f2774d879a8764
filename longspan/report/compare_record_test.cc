#include "longspan/report/compare_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "longspan/base/error.h"
#include "longspan/report/compare_summary.h"
#include "longspan/report/compare_text.h"
#include "longspan/report/page.h"

namespace longspan {
namespace compare_record_test {

using nlohmann::json;
using ::testing::HasSubstr;

CompareRecord example() {
  CompareRecord r;
  r.created = "2026-01-31T12:00:00Z";
  r.command = "longspan compare";
  r.machine = {"a \"CPU\"", 2, 2.5e10, "Linux", "AVX2"};
  r.settings.phase = ComparePhase::kTrain;
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

TEST(CompareRecord, EarlierVersionsCalledThePhaseTheTask) {
  json earlier = to_json(example());
  earlier["settings"].erase("phase");
  earlier["settings"]["task"] = "train";
  EXPECT_EQ(compare_record_from("[compare]", earlier).settings.phase, ComparePhase::kTrain);
  earlier["settings"]["task"] = "sleep";
  EXPECT_THAT(message(earlier), HasSubstr("settings.phase"));
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
  EXPECT_THAT(message(bad), HasSubstr("'mechanisms[0].pattern' is not 2×2"));
  bad = good;
  bad.erase("points");
  EXPECT_THAT(message(bad), HasSubstr("has no 'points'"));
}

// Each of these was shown, or crashed what shows it.
TEST(CompareRecord, RefusesWhatCannotBeShown) {
  struct Bad {
    const char* path;
    json value;
    const char* sentence;
  };
  json many_kinds = json::array();
  for (int i = 0; i < 65; ++i) {
    many_kinds.push_back({{"kind", std::to_string(i)}, {"bound", "memory"}});
  }
  const std::string escape = "flash\033[2J";
  const std::vector<Bad> all = {
      {"/settings/heads", 0, "'settings.heads' is 0; need a whole number from 1 to"},
      {"/settings/heads", 3, "'settings.heads' 3 heads do not divide a width of 512"},
      {"/settings/threads", 0, "'settings.threads' is 0; need"},
      {"/settings/d_model", 1e300, "'settings.d_model' is 1e+300; need a whole number"},
      {"/points/0/time/measured", -1.0, "'points[0].time.measured' is -1.0; need a number from"},
      {"/points/0/time/measured", 0, "'points[0].time.measured' is 0; need a number from"},
      {"/points/0/time/measured", 1e-320, "need a number from 1e-12 to 1e+12"},
      {"/points/0/time/predicted", 1e300, "'points[0].time.predicted' is 1e+300; need"},
      {"/points/0/time", nullptr, "'points[0]' is ok but has no measured time"},
      {"/points/0/memory/measured", -5, "'points[0].memory.measured' is -5; need"},
      {"/points/0/memory/predicted", 1e30, "'points[0].memory.predicted' is 1e+30; need"},
      {"/points/0/kinds/0/seconds", -1, "'points[0].kinds[0].seconds' is -1; need"},
      {"/points/0/kinds/0/bound", "hope", "'points[0].kinds[0].bound' is 'hope'; need compute"},
      {"/points/0/kinds", many_kinds, "'points[0].kinds' brings more than 64 kinds of work"},
      {"/points/0/reason", escape, "'points[0].reason' is \"flash\\u001b[2J\"; need one line"},
      {"/points/1", to_json(example())["points"][0], "'points[1]' is a second one of flash"},
      {"/mechanisms/1", to_json(example())["mechanisms"][0], "is 'flash' a second time"},
      {"/mechanisms/0/pattern/cells/0/0", 7, "'mechanisms[0].pattern.cells[0][0]' is 7; need"},
      {"/mechanisms/0/time_exponent", 1e9, "'mechanisms[0].time_exponent' is 1000000000.0; need"},
      {"/mechanisms", json::array(), "'mechanisms' has 0 items; need 1 to 128"},
      {"/lengths", json::array(), "'lengths' has 0 items; need 1 to 64"},
      {"/lengths", json(65, 256), "'lengths' has 65 items; need 1 to 64"},
      {"/lengths", {256, 256}, "'lengths' has a length twice"},
      {"/lengths", {256, 0}, "'lengths[1]' is 0; need a whole number from 1"},
      {"/left_out", json(20000, json::object()), "'left_out' has 20000 items; need at most"},
      {"/machine/cpu", std::string(1U << 17U, 'x'), "need at most 65536 bytes"},
      {"/roofline/bandwidth", -1, "'roofline.bandwidth' is -1; need"},
  };
  for (const Bad& bad : all) {
    json record = to_json(example());
    record[json::json_pointer(bad.path)] = bad.value;
    EXPECT_THAT(message(record), HasSubstr(bad.sentence))
        << bad.path << " = " << bad.value.dump().substr(0, 50);
  }
}

void show_all(CompareRecord r) {
  summarize(r);
  for (const std::size_t width : {1U, 40U, 80U, 200U}) {
    EXPECT_FALSE(compare_text(r, width).empty());
    EXPECT_FALSE(compare_against(r, r, width).empty());
  }
  EXPECT_FALSE(compare_csv(r).empty());
  EXPECT_FALSE(comparison_page(r).empty());
  EXPECT_NO_THROW(compare_record_from("[compare]", to_json(r)));
}

// Whatever stands in the place of any value: refused in a sentence, or shown.
TEST(CompareRecord, WhatIsReadCanBeShown) {
  CompareRecord r = example();
  r.mechanisms.push_back({.name = "linear", .spec = "linear"});
  r.points.push_back(r.points[0]);
  r.points.back().mechanism = "linear";
  r.points.back().length = 512;
  const json good = to_json(r);
  show_all(compare_record_from("[compare]", good));
  const std::vector<json> values = {nullptr,
                                    true,
                                    0,
                                    1,
                                    -1,
                                    0.5,
                                    1e-12,
                                    1e12,
                                    1e308,
                                    -1e308,
                                    1e-320,
                                    18446744073709551615ULL,
                                    "",
                                    "x",
                                    "flash",
                                    "ok",
                                    "failed",
                                    "refused",
                                    json::array(),
                                    json::object(),
                                    {1, 2}};
  std::size_t shown = 0;
  std::size_t refused = 0;
  const json flat = good.flatten();
  for (const auto& leaf : flat.items()) {
    for (std::string part = leaf.key(); !part.empty(); part.resize(part.rfind('/'))) {
      for (const json& other : values) {
        json changed = good;
        changed[json::json_pointer(part)] = other;
        try {
          show_all(compare_record_from("[compare]", changed));
          ++shown;
        } catch (const Error& e) {
          EXPECT_THAT(e.what(), ::testing::StartsWith("[compare]: "));
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(shown, 100U);
  EXPECT_GT(refused, 1000U);
}

TEST(CompareRecord, PassesOverFieldsOfLaterVersions) {
  json later = to_json(example());
  later["settings"]["colour"] = "red";
  later["points"][0].erase("kinds");
  EXPECT_EQ(message(later), "");
}

}  // namespace compare_record_test
}  // namespace longspan
