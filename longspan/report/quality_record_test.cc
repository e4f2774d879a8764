#include "longspan/report/quality_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "longspan/base/error.h"
#include "longspan/report/quality_page.h"
#include "longspan/report/quality_summary.h"
#include "longspan/report/quality_table.h"

namespace longspan {
namespace quality_record_test {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

QualityTrial trial(const std::string& mechanism, std::uint64_t seed, double quality,
                   double seconds) {
  QualityTrial t;
  t.mechanism = mechanism;
  t.seed = seed;
  t.status = PointStatus::kOk;
  t.quality = quality;
  t.loss = 1.0 - quality;
  t.step_seconds = seconds;
  t.memory = 1e6;
  t.state = mechanism == "flash" ? 4096.0 : 512.0;
  t.curve = {{10, 2.0, quality / 2.0}, {20, 1.0, quality}};
  return t;
}

QualityRecord example() {
  QualityRecord r;
  r.created = "2026-01-31T12:00:00Z";
  r.command = "longspan compare --task recall";
  r.machine = {"a \"CPU\"", 2, 2.5e10, "Linux", "AVX2"};
  r.settings.task = "recall";
  r.settings.options = {{"length", "64"}};
  r.settings.metric = "accuracy";
  r.settings.share = true;
  r.settings.steps = 20;
  r.trials = {trial("linear", 1, 0.5, 0.01), trial("flash", 1, 0.99, 0.02),
              trial("linear", 2, 0.4, 0.03), trial("flash", 2, 0.97, 0.02)};
  QualityTrial refused;
  refused.mechanism = "linformer";
  refused.status = PointStatus::kRefused;
  refused.reason = "it cannot be causal";
  r.trials.push_back(refused);
  summarize(r);
  return r;
}

std::string message(const std::function<void(json&)>& change) {
  json value = to_json(example());
  change(value);
  try {
    quality_record_from("[compare] file", value);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(QualityRecord, ComesBackFromJsonAsItWas) {
  const json once = to_json(example());
  EXPECT_TRUE(is_quality_record(once));
  EXPECT_EQ(to_json(quality_record_from("[compare]", once)), once);
  EXPECT_EQ(once["trials"][0]["status"], "ok");
  EXPECT_TRUE(once["trials"][4]["quality"].is_null());
}

TEST(QualityRecord, RecordsOfOthersAreChecked) {
  EXPECT_EQ(message([](json&) {}), "");
  EXPECT_THAT(message([](json& r) { r["format"] = "longspan-compare"; }),
              HasSubstr("is not the record of a comparison on a task"));
  EXPECT_THAT(message([](json& r) { r["version"] = 2; }), HasSubstr("reads version 1"));
  EXPECT_THAT(message([](json& r) { r.erase("trials"); }), HasSubstr("has no 'trials'"));
  EXPECT_THAT(message([](json& r) { r["trials"] = json::array(); }), HasSubstr("need 1 to 4096"));
  EXPECT_THAT(message([](json& r) { r["trials"][1] = r["trials"][0]; }),
              HasSubstr("'trials[1]' is a second one of linear from seed 1"));
  EXPECT_THAT(message([](json& r) { r["trials"][0]["quality"] = nullptr; }),
              HasSubstr("is ok but has no quality"));
  EXPECT_THAT(message([](json& r) { r["trials"][0]["quality"] = 2.0; }),
              HasSubstr("'trials[0].quality' is 2; need a share from 0 to 1"));
  EXPECT_EQ(message([](json& r) {
              r["settings"]["share"] = false;  // of nats
              r["trials"][0]["quality"] = 2.0;
            }),
            "");
  EXPECT_THAT(message([](json& r) { r["trials"][0]["step_seconds"] = -1.0; }),
              HasSubstr("trials[0].step_seconds"));
  EXPECT_THAT(message([](json& r) { r["trials"][0]["curve"][1]["step"] = 10; }),
              HasSubstr("'trials[0].curve[1].step' is not behind the one before it"));
  EXPECT_THAT(message([](json& r) { r["trials"][0]["mechanism"] = ""; }),
              HasSubstr("is empty; need a name"));
}

TEST(QualityRecord, NothingThatIsMissingIsInvented) {
  for (const char* field : {"steps", "higher", "layers", "metric", "learning_rate", "options"}) {
    EXPECT_EQ(message([&](json& r) { r["settings"].erase(field); }),
              fmt::format("[compare] file: 'settings.{}' is missing", field));
  }
  for (const char* field : {"mechanism", "seed", "status"}) {
    EXPECT_EQ(message([&](json& r) { r["trials"][1].erase(field); }),
              fmt::format("[compare] file: 'trials[1].{}' is missing", field));
  }
  EXPECT_EQ(message([](json& r) { r["trials"][0]["curve"][1].erase("loss"); }),
            "[compare] file: 'trials[0].curve[1].loss' is missing");
  EXPECT_EQ(message([](json& r) { r["trials"][0].erase("guess"); }), "") << "of older versions";
}

QualityRecord with_guess(double guess) {
  QualityRecord r = example();
  for (QualityTrial& t : r.trials) t.guess = guess;
  summarize(r);
  return r;
}

TEST(QualityRecord, GuessingIsBeatenOrNot) {
  EXPECT_THAT(with_guess(0.1).conclusion,
              HasSubstr("flash learns recall best here: accuracy 98.00 % after 20 steps, 2 seeds; "
                        "guessing reaches 10.00 %"));
  EXPECT_THAT(with_guess(0.985).conclusion,
              ::testing::StartsWith("nothing learns recall better than guessing here: accuracy "
                                    "98.00 % at best after 20 steps, guessing 98.50 %"));
  EXPECT_THAT(quality_table(with_guess(0.1), 100), HasSubstr("\nguessing   10.00 %\n"));
  EXPECT_THAT(quality_table(example(), 100), Not(HasSubstr("guessing")));
}

TEST(QualityRecord, ATieHasNoBest) {
  QualityRecord r = example();
  for (QualityTrial& t : r.trials) {
    if (t.quality) t.quality = 0.5;
  }
  summarize(r);
  EXPECT_THAT(r.conclusion, ::testing::StartsWith("all learn recall alike here: accuracy 50.00 % "
                                                  "after 20 steps, 2 seeds"));
}

TEST(QualityRecord, DifferentNumbersOfSeedsAreSeen) {
  QualityRecord r = example();
  EXPECT_THAT(quality_table(r, 40), Not(HasSubstr("seeds\n")));
  r.trials.erase(r.trials.begin() + 2);
  EXPECT_THAT(quality_table(r, 40), HasSubstr("accuracy  seeds"));
  EXPECT_EQ(seeds_text(standings(r)), "1 to 2 seeds");
  EXPECT_EQ(seeds_text(standings(example())), "2 seeds");
}

TEST(QualityRecord, TheLabelHasWhatApplies) {
  QualityRecord r = example();
  r.settings.options = {{"held_out", "9"}, {"length", "64"}};
  EXPECT_THAT(protocol_text(r), ::testing::StartsWith("recall:held-out=9,length=64: "));
  // Older records have what does not apply to their data.
  QualitySettings old = r.settings;
  old.options = {{"data", "a.tsv"}, {"examples", "20000"}};
  old.data_checksum = "1";
  QualitySettings now = old;
  now.options = {{"data", "a.tsv"}};
  EXPECT_EQ(unlike_text(old, now), "");
}

TEST(QualityRecord, StandingsAreTheBestFirst) {
  const std::vector<Standing> all = standings(example());
  ASSERT_EQ(all.size(), 3);
  EXPECT_EQ(all[0].mechanism, "flash");
  EXPECT_DOUBLE_EQ(all[0].mean, 0.98);
  EXPECT_DOUBLE_EQ(all[0].worst, 0.97);
  EXPECT_DOUBLE_EQ(all[0].best, 0.99);
  EXPECT_TRUE(all[0].on_front);
  EXPECT_EQ(all[1].mechanism, "linear");
  EXPECT_EQ(all[1].trained, 2);
  EXPECT_DOUBLE_EQ(all[1].step_seconds, 0.02);
  EXPECT_TRUE(all[1].on_front) << "as fast";
  QualityRecord slower = example();
  slower.trials[0].step_seconds = 0.03;
  EXPECT_FALSE(standings(slower)[1].on_front) << "slower and worse";
  slower.trials[1].quality = slower.trials[0].quality;
  slower.trials[3].quality = slower.trials[2].quality;
  EXPECT_TRUE(standings(slower)[1].on_front) << "the faster of two that are as good";
  EXPECT_FALSE(standings(slower)[0].on_front);
  EXPECT_EQ(all[2].mechanism, "linformer");
  EXPECT_EQ(all[2].trained, 0);
  EXPECT_EQ(all[2].reason, "it cannot be causal");

  QualityRecord by_loss = example();
  by_loss.settings.metric = "loss";
  by_loss.settings.share = false;
  by_loss.settings.higher = false;
  EXPECT_EQ(standings(by_loss)[0].mechanism, "linear");
}

TEST(QualityRecord, TheSpreadOfTheSeedsDecidesTies) {
  EXPECT_EQ(example().conclusion,
            "flash learns recall best here: accuracy 98.00 % after 20 steps, 2 seeds");
  QualityRecord r = example();
  r.trials[0].quality = 0.975;
  summarize(r);
  EXPECT_THAT(r.conclusion, HasSubstr("; linear is within the spread of its seeds"));
  r.trials[2].step_seconds = 0.01;
  summarize(r);
  EXPECT_THAT(r.conclusion, HasSubstr("of them all linear is the fastest, 10.0 ms a step"));
  r.trials = {r.trials[1]};
  summarize(r);
  EXPECT_THAT(r.conclusion, HasSubstr("one seed says nothing about the spread"));
  r.trials[0].status = PointStatus::kFailed;
  summarize(r);
  EXPECT_EQ(r.conclusion, "nothing was trained, so nothing follows");
}

// A mean over those that survived is not the whole truth.
TEST(QualityRecord, SeedsThatFailedAreSaid) {
  QualityRecord r = example();
  QualityTrial failed;
  failed.mechanism = "flash";
  failed.seed = 3;
  failed.status = PointStatus::kFailed;
  failed.reason = "it diverged at step 7";
  r.trials.push_back(failed);
  summarize(r);
  EXPECT_THAT(r.conclusion, HasSubstr("2 seeds, while 1 other failed"));
  const std::string table = quality_table(r, 100);
  EXPECT_THAT(table, HasSubstr("2 of 3"));
  EXPECT_THAT(table, HasSubstr("flash, 1 of 3 seeds: it diverged at step 7"));
  r.trials[0].quality = 1.0;
  r.trials[2].quality = 0.99;
  for (const Standing& standing : standings(r)) {
    EXPECT_EQ(standing.as_good, standing.mechanism == "linear") << standing.mechanism;
  }
}

TEST(QualityRecord, WhatWasNotTrainedAlikeIsSaid) {
  QualityRecord other = example();
  EXPECT_THAT(quality_against(example(), other, 100), Not(HasSubstr("not trained alike")));
  other.settings.steps = 300;
  other.settings.options = {{"length", "32"}, {"pairs", "4"}};
  other.settings.length = 32;
  EXPECT_EQ(unlike_text(example().settings, other.settings),
            "options/length 64 and 32, steps 20 and 300, options/pairs nothing and 4");
  EXPECT_THAT(quality_against(example(), other, 100),
              HasSubstr("not trained alike, here and there: options/length"));
  QualitySettings data = example().settings;
  data.data_checksum = "1";
  EXPECT_TRUE(trained_alike(data, example().settings)) << "earlier records do not say it";
  QualitySettings changed = data;
  changed.data_checksum = "2";
  EXPECT_EQ(unlike_text(data, changed), "data_checksum 1 and 2");
}

TEST(QualityRecord, OfTwoTheOneThatEndedWellStays) {
  const QualityRecord known = example();
  QualityRecord more = example();
  more.trials = {trial("linformer", 0, 0.1, 0.1), trial("flash", 1, 0.1, 0.1),
                 trial("flash", 3, 0.96, 0.02)};
  more.trials[0].seed = known.trials[4].seed;
  const QualityRecord all = merge(known, more);
  EXPECT_EQ(all.trials.size(), 6);
  EXPECT_EQ(all.find("flash", 1)->quality, 0.99);
  EXPECT_EQ(all.find("flash", 3)->quality, 0.96);
  EXPECT_EQ(all.find("linformer", known.trials[4].seed)->status, PointStatus::kOk);
  more.settings.steps = 21;
  EXPECT_THROW(merge(known, more), Error);
}

TEST(QualityRecord, TablesFitAndSayAll) {
  for (const std::size_t width : {40U, 80U, 200U}) {
    const std::string text = quality_table(example(), width);
    std::size_t first = 0;
    for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n', first)) {
      EXPECT_LE(text_columns(text.substr(first, end - first)), width);
      first = end + 1;
    }
    EXPECT_THAT(text, HasSubstr("98.00 %"));
  }
  const std::string text = quality_table(example(), 120);
  EXPECT_THAT(text, HasSubstr("97.00 % to 99.00 %"));
  EXPECT_THAT(text, HasSubstr("linformer: it cannot be causal"));
  EXPECT_THAT(quality_csv(example()), HasSubstr("\nflash,1,ok,0.99,"));
  EXPECT_THAT(quality_against(example(), example()), HasSubstr("flash"));
}

TEST(QualityPage, HasPlotsTableAndRecordAndNoScript) {
  QualityRecord r = example();
  r.trials[0].mechanism = r.trials[2].mechanism = "<b>&linear";
  summarize(r);
  const std::string page = quality_page(r);
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;&amp;linear"));
  EXPECT_THAT(page, HasSubstr("Quality against time"));
  EXPECT_THAT(page, HasSubstr("Quality against state"));
  EXPECT_THAT(page, HasSubstr("How it was learned"));
  EXPECT_THAT(page, HasSubstr("flash: 98 % at 20.0 ms"));
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  const std::size_t at = page.find("id=\"record\">") + 12;
  const json back = json::parse(page.substr(at, page.find("</script>", at) - at));
  EXPECT_EQ(back, to_json(r));
  const std::string both = quality_page(r, &r);
  EXPECT_THAT(both, HasSubstr("flash there"));
}

// One point, equal points, or none: a chart all the same, or nothing.
TEST(QualityPage, FewPointsAreShownToo) {
  QualityRecord r = example();
  r.trials = {r.trials[1]};
  r.trials[0].curve.clear();
  r.trials[0].state = 0.0;
  summarize(r);
  EXPECT_THAT(quality_page(r), AllOf(HasSubstr("Quality against time"), Not(HasSubstr("inf")),
                                     Not(HasSubstr("Quality against state"))));
  r.trials[0].status = PointStatus::kFailed;
  summarize(r);
  EXPECT_THAT(quality_page(r), Not(HasSubstr("Quality against time")));
}

}  // namespace quality_record_test
}  // namespace longspan
