// What is read as a calibration can be predicted with.
#include "longspan/predict/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "longspan/base/error.h"
#include "longspan/predict/predict.h"
#include "longspan/testing/even_calibration.h"

namespace longspan {
namespace calibration_test {

using nlohmann::json;
using ::testing::HasSubstr;

std::string message(const json& value) {
  try {
    calibration_from("[calibrate] file", value);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Calibration, ComesBackFromJsonAsItWas) {
  Calibration c = testing::even_calibration();
  c.rates["add"].cold = {1e-9, 2e-9, 3e-9};
  c.training = {1.25, 1e-7, 0.1};
  const json once = to_json(c);
  const Calibration back = calibration_from("[calibrate]", once);
  EXPECT_EQ(to_json(back), once);
  EXPECT_EQ(back.rates.at("add").cold, c.rates.at("add").cold);
  EXPECT_EQ(back.machine, c.machine);
}

TEST(Calibration, SaysWhatIsWrong) {
  struct Bad {
    const char* path;
    json value;
    const char* sentence;
  };
  const std::vector<Bad> all = {
      {"/format", 2, "is of another format"},
      {"/rates/add/warm", {1e-9}, "'rates.add.warm' has 1 numbers; need 3"},
      {"/rates/add/cold", {1e-9, 1.0, 1.0, 1.0}, "'rates.add.cold' has 4 numbers; need 3"},
      {"/rates/add/warm/1", -1e-9, "'rates.add.warm[1]' is -1e-09; need a number from 0"},
      {"/rates/add/warm/1", nullptr, "'rates.add.warm[1]' is null; need a number"},
      {"/rates/add/error", -1, "'rates.add.error' is -1; need"},
      {"/rates/product forward", json::object(), "'rates.product forward.warm' is missing"},
      {"/rates", json::object(), "is missing"},
      {"/fma_peak", -1e9, "'fma_peak' is -1000000000.0; need a number from 1"},
      {"/bandwidth", 0, "'bandwidth' is 0; need"},
      {"/caches", 1e9, "'memory' is not more than the caches"},
      {"/forward/factor", 0, "'forward.factor' is 0; need"},
      {"/training/spread", 1e9, "'training.spread' is 1000000000.0; need"},
      {"/training", json::object(), "'training.factor' is missing"},
      {"/threads", -1, "'threads' is -1; need"},
      {"/threads", 1e18, "'threads' is 1e+18; need"},
      {"/cpu", 7, "'cpu' is 7; need text"},
  };
  const json good = to_json(testing::even_calibration());
  EXPECT_EQ(message(good), "");
  for (const Bad& bad : all) {
    json changed = good;
    changed[json::json_pointer(bad.path)] = bad.value;
    EXPECT_THAT(message(changed), HasSubstr(bad.sentence)) << bad.path;
  }
  for (const auto& [name, value] : good.items()) {
    json changed = good;
    changed.erase(name);
    EXPECT_NE(message(changed), "") << name;
  }
  EXPECT_THAT(message(json::array()), HasSubstr("is not a calibration"));
}

// Every rate that a model's calls are timed by is one that calibrating measures.
TEST(Calibration, KnowsTheCallsOfAModel) {
  const Calibration c = testing::even_calibration();
  ModelConfig config;
  config.max_length = 64;
  const Model model(config);
  const Batch shape{.batch = 2, .length = 64};
  const TimePrediction forward = predict_forward(c, model, shape);
  const TimePrediction step = predict_step(c, model, shape, OptimizerConfig{});
  EXPECT_GT(forward.seconds, 0.0);
  EXPECT_GT(step.seconds, forward.seconds);
}

TEST(Calibration, MadeByHandIsNotReadBeyondItsEnd) {
  Calibration c = testing::even_calibration();
  c.rates["product forward"].warm.pop_back();
  ModelConfig config;
  config.max_length = 8;
  try {
    predict_forward(c, Model(config), {.batch = 1, .length = 8});
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("calibrated with 5 quantities, not 6"));
  }
}

}  // namespace calibration_test
}  // namespace longspan
