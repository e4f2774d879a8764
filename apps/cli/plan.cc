// longspan plan: time, energy, CO₂ and money of a number of FLOPs on named devices.
#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "cost.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/cost/budget.h"
#include "longspan/predict/calibration.h"
#include "modes.h"
#include "output.h"
#include "table.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

struct PlanOptions {
  ModelOptions model;
  std::string counted = "executed";
  std::optional<double> flops;
  std::optional<double> bytes;
  std::optional<double> parameters;
  std::optional<double> tokens;
  std::string device = "a100-80gb";
  std::string devices_file;
  std::string format;
  std::uint64_t count = 1;
  std::optional<Range> utilisation;
  std::optional<Range> achieved;
  std::optional<Range> power;
  std::optional<Range> pue;
  std::optional<Range> grid;
  std::optional<Range> price;
  std::optional<double> money;
  bool csv = false;
  bool list = false;
};

// The FLOPs of a run, and who says so.
struct Demand {
  double flops = 0.0;
  std::string source;
};

Demand six_n_d(double parameters, double tokens) {
  return {6.0 * parameters * tokens,
          fmt::format("6·N·D, N = {:.6g} parameters, D = {:.4g} tokens", parameters, tokens)};
}

// Training a model by backpropagation on so many tokens.
Demand model_demand(const PlanOptions& o) {
  require(o.tokens.has_value(), "[plan] how many tokens in all? need --tokens");
  const double tokens = *o.tokens;
  const Workload workload = workload_from(o.model);
  if (!workload.note.empty()) fmt::print(stderr, "note: {}\n", workload.note);
  const Model model(workload.model);
  if (o.counted == "6nd") {
    return six_n_d(static_cast<double>(model.parameters().total()), tokens);
  }
  if (o.counted != "executed") throw_unknown("plan", "count", o.counted, {"executed", "6nd"});
  const ViewCounts counts = executed_counts(workload, model);
  for (const RuleCounts& rule : counts.rules) {
    if (rule.rule != LearningRule::kBackprop) continue;
    const double step = static_cast<double>(rule.total().flops);
    return {step / static_cast<double>(workload.tokens()) * tokens,
            fmt::format("executed on {:.4g} tokens, {} attention at length {}", tokens,
                        workload.model.attention, workload.length)};
  }
  return {};
}

Demand demand(const PlanOptions& o) {
  const bool model = !o.model.model.empty() || o.model.d_model.has_value();
  const int sources = (o.flops ? 1 : 0) + (o.parameters ? 1 : 0) + (model ? 1 : 0);
  require(sources == 1, "[plan] {}; need one of --flops, --parameters or a model",
          sources == 0 ? "nothing to plan" : "several things to plan");
  if (model) return model_demand(o);
  if (o.flops) {
    require(!o.tokens, "[plan] --flops beside --tokens; need the FLOPs alone");
    return {*o.flops, "given"};
  }
  require(o.tokens.has_value(), "[plan] how many tokens in all? need --tokens");
  return six_n_d(*o.parameters, *o.tokens);
}

Assumption given_or(const std::optional<Range>& given, const Assumption& otherwise) {
  return given ? Assumption{*given, "given"} : otherwise;
}

Device chosen_device(const PlanOptions& o) {
  if (o.device == "this") return device_of(load_calibration(calibration_path(this_machine())));
  return find_device(known_devices(o.devices_file), o.device);
}

PlanInputs inputs(const PlanOptions& o, const Demand& work) {
  PlanInputs in;
  in.flops = work.flops;
  if (o.bytes) in.bytes = *o.bytes;
  in.device = chosen_device(o);
  in.format = o.format.empty() ? std::string(usual_format(in.device)) : o.format;
  const double peak = peak_of(in.device, in.format);
  in.devices = static_cast<double>(o.count);
  in.utilisation = given_or(o.utilisation, assumed_utilisation(in.device));
  if (o.achieved) {
    require(!o.utilisation, "[plan] --achieved beside --utilisation; need one of them");
    const Range& achieved = *o.achieved;
    require(achieved.high <= peak, "[plan] {:.4g} FLOP/s achieved; the peak in {} is {:.4g}",
            achieved.high, in.format, peak);
    in.utilisation = {{achieved.low / peak, achieved.mid / peak, achieved.high / peak},
                      fmt::format("{:.4g} FLOP/s of {:.4g}, given", achieved.mid, peak)};
  }
  in.power = given_or(o.power, assumed_power(in.device));
  in.pue = given_or(o.pue, assumed_pue());
  in.grid = given_or(o.grid, assumed_grid());
  in.price = assumed_price(in.device);
  if (o.price) in.price = {*o.price, "given"};
  if (o.money) {
    require(!o.price, "[plan] --money beside --price; need one of them");
    in.money = *o.money;
  }
  return in;
}

// One line of the result.
struct Line {
  const char* name;  // in JSON and CSV
  const char* unit;  // there
  std::string label;
  Range value;
  double scale;           // what people read is value / scale
  const char* read_unit;  // in this
};

double scale_of(double value, double step) { return value >= step ? step : 1.0; }

std::vector<Line> lines(const Budget& b) {
  const double t = b.seconds.mid;
  const auto [time_scale, time_unit] = t >= 2 * 86400 ? std::pair{86400.0, "days"}
                                       : t >= 7200    ? std::pair{3600.0, "hours"}
                                                      : std::pair{1.0, "s"};
  const bool mega = b.machine_kwh.mid >= 1e4;
  const bool tonnes = b.machine_co2.mid >= 1e4;
  const auto energy = [&](const char* name, const char* label, const Range& r) {
    return Line{name, "kWh", label, r, mega ? 1e3 : 1.0, mega ? "MWh" : "kWh"};
  };
  const auto co2 = [&](const char* name, const char* label, const Range& r) {
    return Line{name, "kg", label, r, tonnes ? 1e3 : 1.0, tonnes ? "t" : "kg"};
  };
  std::vector<Line> out = {
      {"seconds", "s", "time", b.seconds, time_scale, time_unit},
      {"device_hours", "h", "device-hours", b.device_hours, 1.0, "h"},
      energy("energy_machines", "energy, machines alone", b.machine_kwh),
      energy("energy_with_pue", "energy, with PUE", b.total_kwh),
      co2("co2_machines", "CO₂, machines alone", b.machine_co2),
      co2("co2_with_pue", "CO₂, with PUE", b.total_co2),
  };
  if (b.money) {
    const double million = scale_of(b.money->mid, 1e6);
    out.push_back({"money", "USD", "money", *b.money, million, million > 1.0 ? "M USD" : "USD"});
    out.push_back(
        {"price_per_device_hour", "USD", "  price of a device-hour", *b.price, 1.0, "USD"});
    const Range per = {b.money->low / b.petaflop_days, b.money->mid / b.petaflop_days,
                       b.money->high / b.petaflop_days};
    out.push_back({"price_per_petaflop_day", "USD", "  price of a PF-day", per, 1.0, "USD"});
  }
  return out;
}

struct NamedAssumption {
  const char* name;
  const char* unit;
  Assumption assumption;
};

std::vector<NamedAssumption> assumptions(const PlanInputs& in, const Budget& b) {
  std::vector<NamedAssumption> out = {
      {"utilisation", "of peak", in.utilisation},
      {"power", "W per device", in.power},
      {"PUE", "× the machines", in.pue},
      {"grid", "g CO₂/kWh", in.grid},
  };
  if (in.money) {
    out.push_back({"price", "USD/device-hour", {*b.price, "implied by the money given"}});
  } else if (in.price) {
    out.push_back({"price", "USD/device-hour", *in.price});
  }
  return out;
}

nlohmann::json to_json(const Range& r) {
  return {{"low", r.low}, {"mid", r.mid}, {"high", r.high}};
}

void print_json(const PlanInputs& in, const Demand& work, const Budget& b) {
  nlohmann::json json = {{"flops", in.flops},
                         {"flops_source", work.source},
                         {"petaflop_days", b.petaflop_days},
                         {"device",
                          {{"name", in.device.name},
                           {"title", in.device.title},
                           {"format", in.format},
                           {"peak", peak_of(in.device, in.format)},
                           {"bandwidth", in.device.bandwidth},
                           {"power", in.device.power}}},
                         {"devices", in.devices},
                         {"achieved_flops_per_device", to_json(b.achieved)},
                         {"bound", b.bandwidth_bound ? "bandwidth" : "arithmetic"},
                         {"assumptions", nlohmann::json::array()}};
  for (const Line& line : lines(b)) {
    json[line.name] = to_json(line.value);
    json[line.name]["unit"] = line.unit;
  }
  for (const NamedAssumption& a : assumptions(in, b)) {
    nlohmann::json entry = to_json(a.assumption.value);
    entry["name"] = a.name;
    entry["unit"] = a.unit;
    entry["source"] = a.assumption.source;
    json["assumptions"].push_back(entry);
  }
  fmt::print("{}\n", json.dump(2));
}

void print_csv(const PlanInputs& in, const Budget& b) {
  print_verbatim();
  fmt::print("quantity,unit,low,mid,high\n");
  fmt::print("flops,FLOP,{0:.10g},{0:.10g},{0:.10g}\n", in.flops);
  fmt::print("petaflop_days,PF-day,{0:.10g},{0:.10g},{0:.10g}\n", b.petaflop_days);
  for (const Line& line : lines(b)) {
    fmt::print("{},{},{:.10g},{:.10g},{:.10g}\n", line.name, line.unit, line.value.low,
               line.value.mid, line.value.high);
  }
}

// 3545619, 14.8, 0.508: at least three digits, no exponent.
std::string readable(double value) {
  const double size = std::abs(value);
  const int digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return size != 0.0 && size < 1e-2 ? fmt::format("{:.3g}", value)
                                    : fmt::format("{:.{}f}", value, digits);
}

std::string readable(const Range& r, double scale) {
  std::string mid = readable(r.mid / scale);
  if (r.exact()) return mid;
  return fmt::format("{}  ({} to {})", mid, readable(r.low / scale), readable(r.high / scale));
}

void print_line(const std::string& label, const std::string& text) {
  print_wrapped(fmt::format("{:<26}", shown(label)), text);
}

void print_table(const PlanInputs& in, const Demand& work, const Budget& b) {
  print_line("FLOPs", fmt::format("{:.4g}  ({})", in.flops, work.source));
  print_line("PF-days", readable(b.petaflop_days));
  print_line("devices", fmt::format("{:.6g} × {}: peak {:.4g} FLOP/s in {}, {:.4g} GB/s",
                                    in.devices, in.device.title, peak_of(in.device, in.format),
                                    in.format, in.device.bandwidth / 1e9));
  print_line("achieved, each", fmt::format("{} TFLOP/s", readable(b.achieved, 1e12)));
  if (b.bandwidth_bound) print_line("bound by", "memory bandwidth, not arithmetic");
  for (const Line& line : lines(b)) {
    print_line(line.label, readable(line.value, line.scale) + " " + line.read_unit);
  }
  fmt::print("\nassumed\n");
  for (const NamedAssumption& a : assumptions(in, b)) {
    print_line(
        fmt::format("  {}", a.name),
        fmt::format("{} {}: {}", readable(a.assumption.value, 1.0), a.unit, a.assumption.source));
  }
  if (!b.money) {
    print_wrapped("", fmt::format("no price is known for {}; give --price", in.device.name));
  }
}

void print_devices(const std::vector<Device>& devices, bool json) {
  nlohmann::json list = nlohmann::json::array();
  Table table({{"device"},
               {"", false, true},
               {"TFLOP/s", true},
               {"GB/s", true},
               {"W", true},
               {"formats", false, true}});
  for (const Device& d : devices) {
    std::string formats;
    for (const auto& [name, peak] : d.peak) formats += (formats.empty() ? "" : " ") + name;
    const auto number = [](double value) { return fmt::format("{:.4g}", value); };
    list.push_back({{"name", d.name},
                    {"title", d.title},
                    {"kind", d.kind.name()},
                    {"peak", d.peak},
                    {"bandwidth", d.bandwidth},
                    {"memory", d.memory},
                    {"power", d.power}});
    table.add({d.name, d.title, number(peak_of(d, usual_format(d)) / 1e12),
               number(d.bandwidth / 1e9), number(d.power), formats});
  }
  if (json) return fmt::print("{}\n", list.dump(2));
  table.print();
}

void run(const PlanOptions& o, const Common& common) {
  if (o.list) return print_devices(known_devices(o.devices_file), common.json);
  const Demand work = demand(o);
  const PlanInputs in = inputs(o, work);
  const Budget budget = make_budget(in);
  if (common.json) return print_json(in, work, budget);
  if (o.csv) return print_csv(in, budget);
  print_table(in, work, budget);
}

// "0.4" or "0.3:0.5", both ends within the bounds.
void add_range(CLI::App& command, const std::string& name, std::optional<Range>& value,
               const std::string& text, const Bounds& bounds) {
  add_read(command, name, text, ends_in_words(bounds), "Assumptions (a number, or low:high)",
           [&command, &value, bounds, key = first_name(name)](const std::string& written) {
             value = parse_range(command.get_name(), key, written);
             for (const double end : {value->low, value->high}) {
               require_within(command.get_name(), key, end, bounds);
             }
           });
}

void add_amounts(CLI::App& command, PlanOptions& o) {
  constexpr Bounds kAmount = from_to(1, 1e40);
  const char* group = "What";
  add_number(command, "--flops", o.flops, "FLOPs of the whole run", kAmount, group);
  add_number(command, "--parameters", o.parameters, "Parameters N, for 6·N·D", above_to(0, 1e20),
             group);
  add_number(command, "--tokens", o.tokens, "Tokens D of the whole run", above_to(0, 1e20), group);
  add_text(command, "--counted", o.counted,
           "FLOPs of a model: executed by this engine, or by the rule 6nd", group);
  add_number(command, "--bytes", o.bytes,
             "Bytes moved to and from memory; the longer of the two times counts", kAmount, group);
}

void add_assumptions(CLI::App& command, PlanOptions& o) {
  add_range(command, "--utilisation,--utilization", o.utilisation,
            "Share of the peak that is reached", above_to(0, 1));
  add_range(command, "--achieved", o.achieved,
            "FLOP/s that a device reaches, instead of --utilisation", above_to(0, 1e24));
  add_range(command, "--power", o.power, "W per device", above_to(0, 1e9));
  add_range(command, "--pue", o.pue, "What the building draws / what its machines draw",
            from_to(1, 100));
  add_range(command, "--grid", o.grid, "g CO₂ per kWh", above_to(0, 1e6));
  add_range(command, "--price", o.price, "USD per device-hour", above_to(0, 1e9));
  add_number(command, "--money", o.money, "USD in all; the price of a device-hour follows",
             above_to(0, 1e20), "Assumptions (a number, or low:high)");
}

}  // namespace

void add_plan(CLI::App& app, const Common& common) {
  CLI::App* command =
      app.add_subcommand("plan", "Time, energy, CO₂ and money of a run on named devices");
  const auto options = std::make_shared<PlanOptions>();
  PlanOptions& o = *options;
  const auto text = [&](const char* name, std::string& value, const char* help, const char* group) {
    command->add_option(name, value, help)->group(group);
  };
  add_model_options(*command, o.model);
  add_amounts(*command, o);
  add_text(*command, "--device", o.device, "Device, see --list; this: the machine as calibrated",
           "Where");
  text("--devices", o.devices_file, "A TOML file with more devices", "Where");
  command->add_flag("--list", o.list, "The devices that are known")->group("Where");
  text("--format", o.format, "Number format: fp32, tf32, fp16, bf16, …", "Where");
  add_number(*command, "--count", o.count, "How many devices", from_to(1, 1e9), "Where");
  add_assumptions(*command, o);
  command->add_flag("--csv", o.csv, "Comma-separated values");
  command->footer(
      "Examples:\n"
      "  longspan plan --model gpt3-175b --tokens 300e9 --device v100 --count 10000\n"
      "  longspan plan --flops 1e21 --device h100 --count 64\n"
      "  longspan plan --parameters 7e9 --tokens 1e12 --device a100-80gb --count 512\n"
      "  longspan plan --flops 3.14e23 --device v100 --achieved 24.6e12 --count 10000 \\\n"
      "    --power 330 --pue 1.1 --grid 429 --money 1.8e6");
  const Modes modes = Modes()
                          .only("--list", {"--devices"})
                          .apart("--flops", {"--counted", "Model", "Variants"})
                          .apart("--parameters", {"--counted", "Model", "Variants"});
  command->callback([options, command, modes, &common] {
    modes.check(*command);
    run(*options, common);
  });
}

}  // namespace longspan::cli
