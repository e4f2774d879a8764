#include "longspan/report/compare_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "longspan/base/error.h"
#include "longspan/report/compare_text.h"

namespace longspan {
namespace compare_summary_test {

using ::testing::HasSubstr;
using ::testing::Not;

ComparePoint point(const std::string& mechanism, std::uint64_t n, double seconds, bool measured) {
  ComparePoint p;
  p.mechanism = mechanism;
  p.length = n;
  p.status = measured ? "ok" : "skipped";
  p.reason = measured ? "" : "does not fit the budget";
  p.time = CompareTime{.predicted = 1.1 * seconds};
  p.memory = CompareMemory{.predicted = 1e6 * static_cast<double>(n)};
  if (mechanism == "linear") p.error = CompareError{0.25, 0.3};
  if (measured) {
    p.time->measured = seconds;
    p.memory->measured = p.memory->resident = 1.02e6 * static_cast<double>(n);
    p.kinds = std::vector<KindTime>{{"matmul", seconds, 10, 1, "compute"}};
  }
  return p;
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

// flash: n², full: 1.5 n², linear: 3000·n; they meet at n = 3000.
CompareRecord example() {
  CompareRecord r;
  for (const char* name : {"full", "flash", "linear"}) {
    CompareMechanism m;
    m.name = m.spec = name;
    m.exact = m.name != "linear";
    r.mechanisms.push_back(m);
  }
  for (std::uint64_t n = 256; n <= 16384; n *= 2) {
    const double x = static_cast<double>(n);
    const bool measured = n <= 8192;
    r.lengths.push_back(n);
    r.points.push_back(point("flash", n, 1e-8 * x * x, measured));
    r.points.push_back(point("full", n, 1.5e-8 * x * x, measured));
    r.points.push_back(point("linear", n, 1e-8 * 3000 * x, measured));
  }
  summarize(r);
  return r;
}

TEST(CompareSummary, FindsExponentsAndCrossovers) {
  const CompareRecord r = example();
  EXPECT_NEAR(*r.mechanisms[1].time_exponent, 2.0, 1e-9);
  EXPECT_NEAR(*r.mechanisms[2].time_exponent, 1.0, 1e-9);
  EXPECT_NEAR(*r.mechanisms[2].memory_exponent, 1.0, 1e-9);
  EXPECT_FALSE(r.mechanisms[1].crossover.has_value());
  EXPECT_EQ(r.mechanisms[0].crossover->length, std::nullopt);
  EXPECT_EQ(r.mechanisms[0].crossover->text, "not faster than flash up to n = 16,384 (predicted)");
  EXPECT_NEAR(*r.mechanisms[2].crossover->length, 3000, 1);
  EXPECT_TRUE(r.mechanisms[2].crossover->measured);
  EXPECT_EQ(r.mechanisms[2].crossover->text, "faster than flash from n ≈ 3,000");
}

TEST(CompareSummary, SaysHowGoodThePredictionsWere) {
  const CompareRecord r = example();
  EXPECT_EQ(r.prediction.points, 18);
  EXPECT_NEAR(*r.prediction.time_median_error, 0.1, 1e-9);
  EXPECT_NEAR(*r.prediction.memory_median_error, 1.0 - 1.0 / 1.02, 1e-9);
  EXPECT_EQ(r.left_out.size(), 3);
  EXPECT_EQ(r.fusion.size(), 6);
  EXPECT_NEAR(r.fusion[0].full_seconds / r.fusion[0].flash_seconds, 1.5, 1e-9);
}

TEST(CompareSummary, ConcludesInASentence) {
  CompareRecord r = example();
  EXPECT_EQ(r.conclusion,
            "on this machine exact flash is within 15 % of the fastest that can replace it up to n "
            "≈ 3,400; beyond "
            "that linear is 2.7 times as fast at n = 8,192 (predicted: 5.5 times at 16,384), with "
            "a relative error of 0.25 on random inputs");
  std::erase_if(r.points, [](const ComparePoint& p) { return p.mechanism == "linear"; });
  summarize(r);
  EXPECT_EQ(r.conclusion,
            "on this machine exact flash is within 15 % of the fastest that can replace it up to n "
            "= 8,192");
  const char* nothing = "nothing was measured, so nothing follows for this machine";
  for (ComparePoint& p : r.points) p = point(p.mechanism, p.length, *p.time->predicted, false);
  summarize(r);
  EXPECT_EQ(r.conclusion, nothing) << "predictions are no measurements";
  r.points.clear();
  summarize(r);
  EXPECT_EQ(r.conclusion, nothing);
}

// flash alone is measured at lengths at which linear, which led, was not.
TEST(CompareSummary, WhatLedIsNotForgottenWhereItWasNotMeasured) {
  CompareRecord r = example();
  r.lengths = {512, 1024, 2048, 4096};
  r.points = {point("flash", 512, 1.0, true),  point("linear", 512, 0.5, true),
              point("flash", 1024, 2.0, true), point("linear", 1024, 1.0, false),
              point("full", 1024, 2.1, true),  point("flash", 2048, 4.0, true)};
  summarize(r);
  EXPECT_THAT(r.conclusion, HasSubstr("linear is 2.0 times as fast at n = 512"));
  std::erase_if(r.points, [](const ComparePoint& p) { return p.mechanism != "flash"; });
  summarize(r);
  EXPECT_EQ(r.conclusion, "nothing was measured beside flash, so nothing follows for this machine");
}

// Of window and linear, which are as fast, the errors change places between the lengths.
TEST(CompareSummary, ChoosesByTheErrorAtTheLengthItSpeaksOf) {
  CompareRecord r = example();
  CompareMechanism m;
  m.name = m.spec = "window";
  r.mechanisms.push_back(m);
  r.lengths = {256, 512};
  r.points.clear();
  for (const std::uint64_t n : r.lengths) {
    r.points.push_back(point("flash", n, 2.0, true));
    r.points.push_back(point("linear", n, 1.0, true));
    r.points.back().error = CompareError{n == 256 ? 0.38 : 0.35, 1.0};
    r.points.push_back(point("window", n, 1.0, true));
    r.points.back().error = CompareError{n == 256 ? 0.2 : 0.45, 1.0};
  }
  r.points.push_back(point("full", 256, 3.0, true));
  r.points.back().error = CompareError{1e-7, 1e-7};
  summarize(r);
  EXPECT_EQ(error_length(r), 256U);
  EXPECT_THAT(r.conclusion, HasSubstr("linear is 2.0 times as fast at n = 512, with a relative "
                                      "error of 0.35 on random inputs"));
}

// A process of a few pages grows by what the allocator takes.
TEST(CompareSummary, SmallProcessesDoNotJudgeThePrediction) {
  CompareRecord r = example();
  r.lengths = {512};
  r.points = {point("flash", 512, 1.0, true)};
  r.points[0].memory = CompareMemory{.predicted = 1e6, .measured = 1e6, .resident = 5e6};
  summarize(r);
  EXPECT_FALSE(r.prediction.memory_median_error.has_value());
  r.points[0].memory = CompareMemory{.predicted = 1e8, .measured = 1e8, .resident = 1.25e8};
  summarize(r);
  EXPECT_NEAR(r.prediction.memory_median_error.value_or(0.0), 0.2, 1e-9);
}

// linear is measured where flash is only predicted, much slower.
TEST(CompareSummary, MeasuredIsNotSetAgainstPredicted) {
  CompareRecord r = example();
  r.lengths = {4096};
  r.points = {point("flash", 4096, 1.0, false), point("linear", 4096, 0.1, true)};
  for (const bool predicted : {true, false}) {
    if (!predicted) r.points[1].time->predicted.reset();
    summarize(r);
    EXPECT_EQ(r.conclusion,
              "on this machine nothing that can replace exact attention is clearly faster than "
              "linear at n = 4,096");
  }
  EXPECT_FALSE(r.mechanisms[2].crossover.has_value());
}

// Of window an error is known at the last length alone.
TEST(CompareSummary, ErrorsAreThoseOfOneLength) {
  CompareRecord r = example();
  EXPECT_EQ(error_length(r), 8192U);
  CompareMechanism m;
  m.name = m.spec = "window";
  r.mechanisms.push_back(m);
  for (ComparePoint& p : r.points) {
    if (p.length > 1024) p.error.reset();
    if (p.mechanism == "full" && p.length == 512) p.error = CompareError{1e-7, 1e-7};
  }
  r.points.push_back(point("window", 8192, 1.0, true));
  r.points.back().error = CompareError{0.77, 0.77};
  summarize(r);
  EXPECT_EQ(error_length(r), 512U);
  const std::string text = one_line(compare_text(r));
  EXPECT_THAT(text, HasSubstr("against exact attention at n = 512"));
  EXPECT_THAT(text, Not(HasSubstr("0.77")));
  EXPECT_THAT(r.conclusion, HasSubstr("a relative error of 0.25 on random inputs at n = 512"));
  r.settings.inputs = "folder";
  r.settings.random_tokens = true;
  EXPECT_THAT(one_line(compare_text(r)), HasSubstr("inputs, of random tokens"));
}

// A tenth slower is a tie, and chance decides who comes first; the error does not change.
TEST(CompareSummary, NamesTheMoreAccurateOfEquallyFast) {
  for (const double slower : {0.95, 1.1, 1.3}) {
    CompareRecord r = example();
    CompareMechanism m;
    m.name = m.spec = "window";
    r.mechanisms.push_back(m);
    for (const std::uint64_t n : r.lengths) {
      const double linear = 1e-8 * 3000 * static_cast<double>(n);
      r.points.push_back(point("window", n, slower * linear, n <= 8192));
      r.points.back().error = CompareError{0.1, 0.1};
    }
    summarize(r);
    EXPECT_THAT(r.conclusion, HasSubstr(slower < 1.15 ? "that window is" : "that linear is"));
  }
}

// window is within 15 % of linear, and flash within 15 % of window, but not of linear.
TEST(CompareSummary, TheLeadIsThatOverTheBaseline) {
  CompareRecord r = example();
  CompareMechanism m;
  m.name = m.spec = "window";
  r.mechanisms.push_back(m);
  r.lengths = {4096};
  r.points = {point("flash", 4096, 1.0, true), point("linear", 4096, 0.8, true),
              point("window", 4096, 0.9, true)};
  r.points[1].error = CompareError{0.25, 0.3};
  r.points[2].error = CompareError{0.1, 0.1};
  summarize(r);
  EXPECT_THAT(r.conclusion, HasSubstr("linear is 1.2 times as fast at n = 4,096"));
  r.points.erase(r.points.begin());
  summarize(r);
  EXPECT_EQ(
      r.conclusion,
      "on this machine nothing that can replace exact attention is clearly faster than window "
      "at n = 4,096");
}

// Measured where they tie, predicted where they do not.
TEST(CompareSummary, WhatIsPredictedToWinWinsClearly) {
  CompareRecord r = example();
  std::erase_if(r.points, [](const ComparePoint& p) { return p.mechanism == "full"; });
  for (ComparePoint& p : r.points) {
    if (p.length > 2048) p = point(p.mechanism, p.length, *p.time->predicted / 1.1, false);
  }
  summarize(r);
  EXPECT_EQ(r.conclusion,
            "on this machine exact flash is within 15 % of the fastest that can replace it up to n "
            "= 2,048; linear is "
            "predicted to be clearly faster from n ≈ 3,400");
}

// An output that far from exact attention's is another function's.
TEST(CompareSummary, WhatBearsNoResemblanceIsNotRecommended) {
  CompareRecord r = example();
  const auto concluded = [&](std::optional<double> error) {
    for (ComparePoint& p : r.points) {
      if (p.mechanism == "linear") p.error = CompareError{error, error};
    }
    summarize(r);
    return r.conclusion;
  };
  EXPECT_THAT(concluded(0.5), HasSubstr("beyond that linear is 2.7 times as fast at n = 8,192"));
  EXPECT_EQ(concluded(0.79),
            "on this machine exact flash is within 15 % of the fastest that can replace it up to "
            "n = 8,192; linear is 2.7 times as fast as flash at n = 8,192, but its outputs are not "
            "exact attention's (a relative error of 0.79 on random inputs): a model must be "
            "trained with it");
  EXPECT_THAT(concluded({}), HasSubstr("exact attention's is not known: a model must be trained"));
  std::erase_if(r.points, [](const ComparePoint& p) { return p.mechanism != "linear"; });
  EXPECT_EQ(concluded(0.79), "nothing that can replace exact attention was measured at n = 8,192");
}

TEST(CompareSummary, AddsWhatTheOtherHasNot) {
  const CompareRecord base = example();
  CompareRecord more = example();
  std::erase_if(more.points, [](const ComparePoint& p) { return p.length < 16384; });
  more.lengths = {16384, 32768};
  for (ComparePoint& p : more.points) p = point(p.mechanism, p.length, 7.0, true);
  more.points.push_back(point("linear", 32768, 9.0, true));
  const CompareRecord both = merge(base, more);
  EXPECT_EQ(both.lengths.size(), 8);
  EXPECT_EQ(both.points.size(), 22);
  EXPECT_EQ(both.find("flash", 16384)->time->measured, 7.0);
  EXPECT_EQ(both.find("flash", 256)->time->measured, base.find("flash", 256)->time->measured);
  // What was measured is not given up for what was not.
  const CompareRecord back = merge(more, base);
  EXPECT_EQ(back.find("flash", 16384)->time->measured, 7.0);
  more.settings.d_model = 64;
  EXPECT_THROW(merge(base, more), Error);
  more = base;
  more.machine.cpu = "another";
  EXPECT_THROW(merge(base, more), Error);
}

std::size_t columns(const std::string& line) {
  std::size_t count = 0;
  for (const char c : line) {
    if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) ++count;
  }
  return count;
}

TEST(CompareText, FitsTheTerminalAndSaysEverything) {
  CompareRecord r = example();
  r.machine.cpu = "a CPU";
  r.mechanisms.push_back(r.mechanisms[2]);
  r.mechanisms.back().name = "performer:features=123456,kernel=hyperbolic";
  ComparePoint failed = point(r.mechanisms.back().name, 16384, 1.0, false);
  failed.status = PointStatus::kFailed;
  failed.reason = "its process was ended by signal 9, which nobody had expected of it so early";
  r.points.push_back(failed);
  summarize(r);
  for (const std::size_t width : {60U, 80U, 100U, 200U}) {
    std::istringstream lines(compare_text(r, width));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), width) << line;
  }
  EXPECT_THAT(compare_text(r, 80), HasSubstr("the last 4 of 7 lengths"));
  EXPECT_THAT(compare_text(r, 200), Not(HasSubstr("of 7 lengths")));
  const std::string text = one_line(compare_text(r));
  EXPECT_THAT(text, HasSubstr("~2953"));
  EXPECT_THAT(text, HasSubstr("failed"));
  EXPECT_THAT(text, HasSubstr("its process was ended by signal 9"));
  EXPECT_THAT(text, HasSubstr("time off by 10.0 % (median"));
  EXPECT_THAT(text, HasSubstr(r.conclusion));
}

// What was measured at one length and what is predicted of the others may disagree.
TEST(CompareSummary, TheConclusionDoesNotContradictItself) {
  CompareRecord r = example();
  r.lengths = {256, 16384};
  r.points = {point("flash", 256, 1.2, true), point("linear", 256, 1.0, true),
              point("flash", 16384, 1.0, false), point("linear", 16384, 1.5, false)};
  summarize(r);
  EXPECT_THAT(r.conclusion, HasSubstr("linear is 1.2 times as fast at n = 256"));
  EXPECT_THAT(r.conclusion, Not(HasSubstr("every length")));
  EXPECT_THAT(r.conclusion, Not(HasSubstr("beyond")));
}

// What was reached, or else what is predicted and marked so.
TEST(CompareText, PredictedMemoryIsMarked) {
  CompareRecord r = example();
  r.lengths = {256};
  r.points = {point("flash", 256, 1.0, true), point("full", 256, 1.0, true)};
  r.points[0].memory = CompareMemory{.predicted = 7e6, .measured = 7e6, .resident = 8e6};
  r.points[1].memory = CompareMemory{.predicted = 5e6};
  summarize(r);
  const std::string text = compare_text(r);
  EXPECT_THAT(text, HasSubstr(" 6.68"));
  EXPECT_THAT(text, HasSubstr("~4.77"));
  EXPECT_THAT(text, HasSubstr("~ predicted, not measured; --csv has"));
}

TEST(CompareText, CsvHasALineForEachPoint) {
  CompareRecord r = example();
  r.points[0].reason = "a, \"b\"";
  const std::string csv = compare_csv(r);
  EXPECT_EQ(std::ranges::count(csv, '\n'), 1 + static_cast<std::ptrdiff_t>(r.points.size()));
  EXPECT_THAT(csv, HasSubstr("\"a, \"\"b\"\"\"\n"));
  EXPECT_THAT(csv, HasSubstr("flash,256,ok,"));
}

TEST(CompareText, SetsTwoMachinesBesideEachOther) {
  const CompareRecord here = example();
  CompareRecord there = example();
  for (ComparePoint& p : there.points) {
    if (p.time->measured) *p.time->measured *= 2.0;
  }
  EXPECT_THAT(compare_against(here, there), HasSubstr("0.500"));
}

TEST(CompareText, NumbersHaveCommas) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(1048576), "1,048,576");
  EXPECT_EQ(with_commas(1000007), "1,000,007");
}

}  // namespace compare_summary_test
}  // namespace longspan
