// Calibrations: what they predict of passes and steps, what is advised and planned by them, and the
// device that they make of this machine.
#include "longspan/predict/calibration.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "longspan/attention/registry.h"
#include "longspan/compare/advice.h"
#include "longspan/compare/compare_plan.h"
#include "longspan/cost/budget.h"
#include "longspan/predict/predict.h"
#include "longspan/testing/even_calibration.h"
#include "longspan/testing/temporary_directory.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tree.h"

namespace longspan::fuzz {

namespace {

constexpr std::uint64_t kLength = 64;

CompareSettings small_settings() {
  CompareSettings settings;
  settings.phase = ComparePhase::kTrain;
  settings.layers = 1;
  settings.d_model = 16;
  settings.heads = 2;
  settings.d_ff = 32;
  settings.budget_seconds = 1.0;
  return settings;
}

// Of this machine, with every rate that is calibrated.
Calibration sound_calibration() {
  Calibration c = testing::even_calibration();
  c.forward = c.training = {.factor = 1.1, .call = 1e-6, .spread = 0.1};
  c.seconds = 60.0;
  for (auto& [name, rate] : c.rates) {
    rate.cold = rate.warm;
    rate.error = 0.1;
  }
  return c;
}

// Errors, which no calibration changes, are not measured for what was judged.
std::vector<JudgedMechanism> everything() {
  std::vector<JudgedMechanism> all;
  for (const std::string& attention : advised_settings()) all.push_back({attention, ""});
  return all;
}

void check_prediction(const TimePrediction& p) {
  demand(p.seconds >= 0.0 && p.low <= p.seconds && p.seconds <= p.high,
         fmt::format("a time, and its interval: {} to {} to {}", p.low, p.seconds, p.high));
}

void use_calibration(const Calibration& c) {
  const CompareCase what{small_settings(), "flash", kLength};
  static const Model model(what.model());
  const Batch shape = {.batch = 1, .length = kLength};
  check_prediction(predict_forward(c, model, shape));
  check_prediction(predict_step(c, model, shape, {}));
  const Device device = device_of(c);
  make_budget({.flops = 1e15,
               .device = device,
               .format = std::string(usual_format(device)),
               .utilisation = assumed_utilisation(device),
               .power = assumed_power(device),
               .pue = assumed_pue(),
               .grid = assumed_grid()});
  advise(c, {.settings = small_settings(), .length = kLength, .judged = everything()});
  plan_comparison(c,
                  {.settings = small_settings(),
                   .attention = {"flash", "performer"},
                   .lengths = {kLength, 2 * kLength},
                   .memory = 1e9},
                  [](const std::string&, std::uint64_t) { return false; });
}

}  // namespace

int fuzz_calibration(Bytes input) {
  static const std::vector<nlohmann::json> trees = {to_json(sound_calibration())};
  const std::filesystem::path path = scratch() / "calibration.json";
  testing::write_bytes(
      path, edits(input) ? json_text(edited(trees, input)) : std::string(text_of(input)));
  return outcome_of([&] { use_calibration(load_calibration(path)); });
}

}  // namespace longspan::fuzz
