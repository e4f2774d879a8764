// Tables of devices: every device of them is planned with.
#include "longspan/cost/budget.h"
#include "longspan/cost/device.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tree.h"

namespace longspan::fuzz {

namespace {

const std::vector<nlohmann::json>& device_trees() {
  static const std::vector<nlohmann::json> trees = {
      {{"device",
        {{"a",
          {{"title", "a"},
           {"kind", "accelerator"},
           {"peak", {{"fp32", 15.7e12}, {"fp16", 125e12}}},
           {"bandwidth", 900e9},
           {"memory", 34359738368},
           {"power", 300},
           {"usual", {0.15, 0.35}},
           {"price", {0.5, 3.06}}}},
         {"b",
          {{"title", "b"},
           {"kind", "cpu"},
           {"peak", {{"fp64", 1e12}}},
           {"bandwidth", 1e11},
           {"memory", 1e9},
           {"power", 65}}}}}}};
  return trees;
}

void plan_with(const Device& device) {
  PlanInputs in;
  in.flops = 1e21;
  in.bytes = 1e15;
  in.device = device;
  in.format = usual_format(device);
  in.devices = 8.0;
  in.utilisation = assumed_utilisation(device);
  in.power = assumed_power(device);
  in.pue = assumed_pue();
  in.grid = assumed_grid();
  in.price = assumed_price(device);
  const Budget budget = make_budget(in);
  demand(budget.seconds.low > 0.0 && budget.seconds.low <= budget.seconds.high,
         "a plan takes time, and its range is one");
}

}  // namespace

int fuzz_devices(Bytes input) {
  return outcome_of([&] {
    const std::string text =
        edits(input) ? toml_text(edited(device_trees(), input)) : std::string(text_of(input));
    for (const Device& device : parse_devices("table", text)) plan_with(device);
  });
}

}  // namespace longspan::fuzz
