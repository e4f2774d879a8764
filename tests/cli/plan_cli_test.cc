// longspan plan and calibrate as a user meets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longspan/cost/budget.h"
#include "longspan/testing/command_line.h"
#include "longspan/testing/even_calibration.h"

namespace longspan::testing {
namespace plan_cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

nlohmann::json json_of(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Outcome outcome = longspan(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return nlohmann::json::parse(outcome.out);
}

// Patterson et al. (2021): 24.6 TFLOP/s and 330 W per V100, PUE 1.1, 429 g/kWh.
const std::vector<std::string> kGpt3 = {"plan",       "--flops", "3.14e23", "--device", "v100",
                                        "--achieved", "24.6e12", "--count", "10000",    "--power",
                                        "330",        "--pue",   "1.1",     "--grid",   "429",
                                        "--money",    "1.8e6"};

TEST(Plan, Gpt3AsPublished) {
  const auto plan = json_of(kGpt3);
  EXPECT_NEAR(plan["petaflop_days"].get<double>(), 3640.0, 10.0);
  EXPECT_NEAR(plan["device_hours"]["mid"].get<double>(), 3545619.0, 1.0);
  EXPECT_NEAR(plan["seconds"]["mid"].get<double>() / 86400.0, 14.77, 0.005);
  EXPECT_NEAR(plan["energy_with_pue"]["mid"].get<double>(), 1287e3, 0.1e3);
  EXPECT_NEAR(plan["co2_machines"]["mid"].get<double>(), 502e3, 0.5e3);
  EXPECT_NEAR(plan["co2_with_pue"]["mid"].get<double>(), 552e3, 0.5e3);
  EXPECT_EQ(plan["money"]["mid"], 1.8e6);
  EXPECT_NEAR(plan["price_per_device_hour"]["mid"].get<double>(), 0.51, 0.005);
  EXPECT_NEAR(plan["price_per_petaflop_day"]["mid"].get<double>(), 495.0, 1.0);
}

TEST(Plan, SaysBothWithAndWithoutPue) {
  const Outcome plan = longspan(kGpt3);
  EXPECT_THAT(plan.out, AllOf(HasSubstr("502 t"), HasSubstr("552 t"), HasSubstr("0.508 USD"),
                              HasSubstr("1.80 M USD"), HasSubstr("implied")));
}

TEST(Plan, SixTimesParametersTimesTokens) {
  const auto plan = json_of({"plan", "--parameters", "174604259328", "--tokens", "300e9"});
  EXPECT_NEAR(plan["flops"].get<double>(), 3.143e23, 0.001e23);
  EXPECT_NEAR(plan["petaflop_days"].get<double>(), 3637.5, 0.1);
}

TEST(Plan, Gpt3FromItsModel) {
  const std::vector<std::string> model = {"plan", "--model", "gpt3-175b", "--tokens", "300e9"};
  std::vector<std::string> rule = model;
  rule.insert(rule.end(), {"--counted", "6nd"});
  EXPECT_NEAR(json_of(rule)["flops"].get<double>(), 3.143e23, 0.0005e23);
  // Full attention computes the masked half too.
  EXPECT_NEAR(json_of(model)["flops"].get<double>(), 3.230e23, 0.002e23);
  std::vector<std::string> flash = model;
  flash.insert(flash.end(), {"--attention", "flash"});
  EXPECT_NEAR(json_of(flash)["flops"].get<double>(), 3.194e23, 0.002e23);
}

TEST(Plan, RangesAreOrderedAndEveryAssumptionIsPrinted) {
  const auto plan = json_of(
      {"plan", "--flops", "1e21", "--device", "h100", "--count", "64", "--utilisation", "0.3:0.5"});
  for (const char* key : {"seconds", "energy_with_pue", "co2_with_pue", "money"}) {
    EXPECT_LT(plan[key]["low"], plan[key]["mid"]) << key;
    EXPECT_LT(plan[key]["mid"], plan[key]["high"]) << key;
  }
  // 1e21 / (64 · 989.4e12 · 0.5)
  EXPECT_NEAR(plan["seconds"]["low"].get<double>(), 31584.0, 1.0);
  std::vector<std::string> names;
  for (const auto& a : plan["assumptions"]) {
    names.push_back(a["name"]);
    EXPECT_FALSE(a["source"].get<std::string>().empty());
  }
  EXPECT_THAT(names, ::testing::ElementsAre("utilisation", "power", "PUE", "grid", "price"));
}

TEST(Plan, MovingBytesCanTakeLonger) {
  const auto plan = json_of({"plan", "--flops", "1e12", "--bytes", "9e12", "--device", "v100"});
  EXPECT_EQ(plan["bound"], "bandwidth");
  EXPECT_NEAR(plan["seconds"]["mid"].get<double>(), 10.0, 1e-9);
}

TEST(Plan, UsersAddDevices) {
  const TemporaryDirectory scratch;
  const std::string file = (scratch / "own.toml").string();
  write_bytes(file,
              "[device.toy]\ntitle = \"Toy\"\nkind = \"accelerator\"\npeak = { fp16 = 2e12 }\n"
              "bandwidth = 1e9\nmemory = 1e9\npower = 100\n");
  const auto plan = json_of(
      {"plan", "--flops", "1e15", "--device", "toy", "--devices", file, "--utilisation", "0.5"});
  EXPECT_EQ(plan["seconds"]["mid"], 1000.0);
  EXPECT_FALSE(plan.contains("money")) << "it has no price";
  EXPECT_THAT(longspan({"plan", "--list", "--devices", file}).out,
              AllOf(HasSubstr("toy"), HasSubstr("h100")));
}

TEST(Plan, CsvHasOneLinePerQuantity) {
  const Outcome csv = longspan({"plan", "--flops", "1e21", "--csv"});
  EXPECT_THAT(csv.out, AllOf(HasSubstr("quantity,unit,low,mid,high\n"), HasSubstr("\nseconds,s,")));
}

TEST(PlanBadInput, OneSentence) {
  const auto with = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"plan", "--flops", "1e21"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return longspan(arguments);
  };
  expect_wrong_input(longspan({"plan"}), "need one of --flops");
  expect_wrong_input(longspan({"plan", "--flops", "-3"}), "--flops is '-3'");
  expect_wrong_input(longspan({"plan", "--flops", "many"}), "need a number");
  expect_wrong_input(with({"--device", "h10"}), "did you mean 'h100'?");
  expect_wrong_input(with({"--format", "bf15"}), "did you mean 'bf16'?");
  expect_wrong_input(with({"--utilisation", "1.5"}), "at most 1");
  expect_wrong_input(with({"--utilisation", "0.5:0.3"}), "low:high");
  expect_wrong_input(with({"--pue", "0.9"}), "need a number from 1 to 100");
  expect_wrong_input(with({"--grid", "-400"}), "number above 0");
  expect_wrong_input(with({"--count", "0"}), "--count is '0'");
  expect_wrong_input(with({"--price", "1", "--money", "5"}), "need one of them");
  expect_wrong_input(with({"--achieved", "1e18"}), "the peak in bf16");
  expect_wrong_input(with({"--devices", "/nowhere.toml"}), "/nowhere.toml");
}

TEST(PlanBadInput, TomlNamesTheLine) {
  const TemporaryDirectory scratch;
  const std::string file = (scratch / "own.toml").string();
  const auto plan_with = [&](const std::string& toml) {
    write_bytes(file, toml);
    return longspan({"plan", "--flops", "1e21", "--devices", file});
  };
  const std::string head = "[device.toy]\ntitle = \"Toy\"\nkind = \"accelerator\"\n";
  expect_wrong_input(plan_with(head + "peak = { fp16 = 2e12\n"), "line 4");
  expect_wrong_input(plan_with(head + "peak = { fp16 = -2e12 }\n"), "line 4: peak.fp16 of toy");
  expect_wrong_input(plan_with(head + "peak = { fp16 = 1e12 }\n"), "has no bandwidth");
  expect_wrong_input(plan_with(head + "peek = 1\n"), "(line 4) 'peek'; did you mean 'peak'?");
  expect_wrong_input(plan_with("[gadget.toy]\n"), "has no [device.NAME]");
  expect_wrong_input(plan_with(std::string("[\0", 2)), "byte 1 is a control character");
}

TEST(BuiltInDevices, AreComplete) {
  for (const Device& d : known_devices()) {
    EXPECT_FALSE(d.title.empty());
    EXPECT_GT(peak_of(d, usual_format(d)), 1e12) << d.name;
    EXPECT_GT(d.bandwidth, 1e11) << d.name;
    EXPECT_GT(d.power, 10.0) << d.name;
  }
}

// Points at an empty cache; the program inherits the environment.
class EmptyCache : public ::testing::Test {
 protected:
  EmptyCache() { setenv("XDG_CACHE_HOME", scratch_.path().c_str(), 1); }
  ~EmptyCache() override { unsetenv("XDG_CACHE_HOME"); }
  TemporaryDirectory scratch_;
};

TEST_F(EmptyCache, WhatNeedsACalibrationSaysSo) {
  expect_wrong_input(longspan({"calibrate", "--check"}), "run longspan calibrate first");
  expect_wrong_input(longspan({"plan", "--flops", "1e15", "--device", "this"}),
                     "run longspan calibrate first");
}

TEST_F(EmptyCache, ABrokenCalibrationIsRefused) {
  const std::filesystem::path path = calibration_path(this_machine());
  std::filesystem::create_directories(path.parent_path());
  write_bytes(path, "{\"format\": 2}");
  expect_wrong_input(longspan({"calibrate", "--show"}), "run longspan calibrate again");
  write_bytes(path, "{");
  expect_wrong_input(longspan({"calibrate", "--show"}), "line 1");
}

TEST_F(EmptyCache, AnotherMachinesCalibrationIsRefused) {
  Calibration c = even_calibration();
  c.machine.cpu = "abacus";
  write_calibration(c);
  expect_wrong_input(longspan({"calibrate", "--show"}), "is for abacus");
}

const std::vector<std::string> kSmallModel = {
    "cost", "--encoder-layers", "2",   "--d-model", "64",    "--heads", "4", "--vocab",
    "100",  "--length",         "128", "--verify",  "--json"};

TEST_F(EmptyCache, VerifiedCountsAndArenaAreEqual) {
  for (const char* attention : {"full", "flash"}) {
    std::vector<std::string> arguments = kSmallModel;
    arguments.insert(arguments.end(), {"--attention", attention});
    const Outcome outcome = longspan(arguments);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto v = nlohmann::json::parse(outcome.out);
    EXPECT_TRUE(v["counts_equal"]);
    EXPECT_EQ(v["counts"].size(), 4U);
    EXPECT_GT(v["counts"][1]["measured"]["maccs"], 0U);
    for (const char* use : {"inference", "training"}) {
      EXPECT_EQ(v["arena"][use]["predicted"], v["arena"][use]["measured"]) << use;
    }
    EXPECT_GT(v["time"]["step"]["measured"], v["time"]["forward"]["measured"]);
    EXPECT_FALSE(v["time"]["step"].contains("predicted")) << "nothing was calibrated";
  }
}

}  // namespace plan_cli_test
}  // namespace longspan::testing
