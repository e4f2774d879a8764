// longspan calibrate: measures this machine, so that times can be predicted on it.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"
#include "longspan/base/error.h"
#include "longspan/base/number.h"
#include "longspan/io/json_file.h"
#include "longspan/predict/calibrate.h"
#include "longspan/predict/check.h"
#include "modes.h"
#include "output_file.h"
#include "table.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

constexpr double kNoisy = 0.1;  // spread of repeated measurements

struct CalibrateOptions {
  std::string out;
  bool check = false;
  bool show = false;
  Existing existing = Existing::kKept;
};

std::filesystem::path path_of(const CalibrateOptions& o) {
  return o.out.empty() ? calibration_path(this_machine()) : std::filesystem::path(o.out);
}

std::function<void(std::string_view)> progress(const Common& common, const char* what) {
  return [quiet = common.quiet, what](std::string_view part) {
    if (!quiet) fmt::print(stderr, "{} {}\n", what, part);
  };
}

void print_calibration(const Calibration& c, const std::filesystem::path& path) {
  const auto line = [](std::string_view what, const std::string& value) {
    print_wrapped(fmt::format("{:<34}", what), value);
  };
  print_wrapped("", fmt::format("{} ({}), {}, longspan {}", c.machine.cpu, c.machine.instructions,
                                counted(c.machine.threads, "thread"), c.machine.version));
  line("peak of fused multiply-adds", fmt::format("{:.1f} GFLOP/s", c.fma_peak / 1e9));
  line("streaming from memory", fmt::format("{:.1f} GB/s", c.bandwidth / 1e9));
  line("a call that does nothing",
       fmt::format("{:.2f} µs", 1e6 * std::max(c.call_seconds, c.forward.call)));
  const std::vector<double>& product = c.rates.at("product forward").warm;
  if (product[0] > 0.0) {
    line("large products",
         fmt::format("{:.1f} GFLOP/s", 2e-9 * static_cast<double>(c.machine.threads) / product[0]));
  }
  line("models take, beyond their calls",
       fmt::format("× {:.2f} forward, × {:.2f} training", c.forward.factor, c.training.factor));
  line("calibrating took", fmt::format("{:.0f} s; kept in {}", c.seconds, path.string()));
}

nlohmann::json to_json(const TimeCheck& t) {
  return {{"predicted", t.predicted.seconds},
          {"low", t.predicted.low},
          {"high", t.predicted.high},
          {"measured", t.measured.median()},
          {"best", t.measured.best()},
          {"spread", t.measured.spread()},
          {"error", t.error()}};
}

nlohmann::json to_json(const ErrorSummary& s) {
  return {{"median_error", s.median}, {"worst_error", s.worst}, {"spread", s.spread}};
}

void print_check_json(const std::vector<CheckedPoint>& points) {
  nlohmann::json json = {{"points", nlohmann::json::array()},
                         {"forward", to_json(summarize(points, false))},
                         {"step", to_json(summarize(points, true))}};
  for (const CheckedPoint& p : points) {
    json["points"].push_back({{"model", p.point.name},
                              {"attention", p.point.config.attention},
                              {"length", p.point.shape.length},
                              {"batch", p.point.shape.batch},
                              {"d_model", p.point.config.d_model},
                              {"forward", to_json(p.forward)},
                              {"step", to_json(p.step)}});
  }
  fmt::print("{}\n", json.dump(2));
}

void print_check(const std::vector<CheckedPoint>& points) {
  std::vector<Table::Column> columns = {{"attention"}, {"model"}, {"length", true}};
  for (const char* group : {"forward, ms", "training step, ms"}) {
    for (const char* title : {"predicted", "measured", "error"}) {
      columns.push_back({title, true, false, group});
    }
  }
  Table table(std::move(columns));
  for (const CheckedPoint& p : points) {
    Table::Cells cells = {p.point.config.attention, std::string(p.point.name),
                          fmt::format("{}", p.point.shape.length)};
    for (const TimeCheck& t : {p.forward, p.step}) {
      cells.insert(cells.end(), {fmt::format("{:.2f}", 1e3 * t.predicted.seconds),
                                 fmt::format("{:.2f}", 1e3 * t.measured.median()),
                                 fmt::format("{:+.1f} %", 100 * t.error())});
    }
    table.add(std::move(cells));
  }
  table.print();
  for (const bool step : {false, true}) {
    const ErrorSummary s = summarize(points, step);
    fmt::print("{}: median error {:.1f} %, worst {:.1f} %, over {}\n",
               step ? "training step" : "forward", 100 * s.median, 100 * s.worst,
               counted(points.size(), "point"));
    if (s.spread > kNoisy) {
      fmt::print("  the machine is noisy: repeated measurements differ by {:.0f} %\n",
                 100 * s.spread);
    }
  }
}

void run(const CalibrateOptions& o, const Common& common) {
  const std::filesystem::path path = path_of(o);
  if (o.check) {
    const Calibration c = load_calibration(path);
    const auto points = check_times(c, progress(common, "checking"));
    return common.json ? print_check_json(points) : print_check(points);
  }
  Calibration c;
  if (o.show) {
    c = load_calibration(path);
  } else {
    // What the cache has is meant to be measured anew.
    check_output("calibrate", path, o.out.empty() ? Existing::kReplaced : o.existing);
    c = calibrate(progress(common, "measuring"));
    write_json(path, to_json(c));
  }
  if (common.json) {
    fmt::print("{}\n", longspan::to_json(c).dump(2));
  } else {
    print_calibration(c, path);
  }
}

}  // namespace

void add_calibrate(CLI::App& app, const Common& common) {
  CLI::App* command =
      app.add_subcommand("calibrate", "Measures this machine, so that times can be predicted");
  const auto options = std::make_shared<CalibrateOptions>();
  add_text(*command, "--out", options->out,
           "File for the result; in the user's cache unless given");
  add_overwrite(*command, options->existing);
  command->add_flag("--check", options->check,
                    "Predicts and measures a grid of models that calibration did not see");
  command->add_flag("--show", options->show, "Shows the calibration that is there");
  command->footer(
      "Examples:\n"
      "  longspan calibrate\n"
      "  longspan calibrate --threads 1\n"
      "  longspan calibrate --check --json");
  const Modes modes = Modes()
                          .only("--show", {"--out"})
                          .only("--check", {"--out"})
                          .needs({"--overwrite"}, {"--out"});
  command->callback([options, command, modes, &common] {
    modes.check(*command);
    run(*options, common);
  });
}

}  // namespace longspan::cli
