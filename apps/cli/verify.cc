#include "verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "calibration_cache.h"
#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/base/resident.h"
#include "longspan/predict/calibration.h"
#include "longspan/predict/verification.h"
#include "table.h"

namespace longspan::cli {

namespace {

constexpr double kNoisy = 0.1;

RunShape run_shape(const Workload& w) {
  require(w.lengths.empty(), "[verify] --lengths of padded sequences; need whole ones");
  if (w.has_both()) return {w.batch, w.target_length, w.length};
  return {w.batch, w.length, 0};
}

// What runs of this size need is known beforehand: weights that are trained, with gradients and two
// averages, and weights that are packed.
void check_fits(const Workload& w) {
  const Model model(w.model);
  const std::uint64_t bytes = model.training_bytes(w.shape()) + model.inference_bytes(w.shape()) +
                              std::uint64_t{5 * sizeof(float)} * model.parameters().total();
  require(bytes <= available_memory(),
          "[verify] a training step takes {}; {} are available: need a smaller model or batch",
          format_bytes(bytes), format_bytes(available_memory()));
}

nlohmann::json memory_json(const MemoryCheck& m) {
  return {{"arena_predicted", m.arena.predicted},
          {"arena_measured", m.arena.measured},
          {"weights", m.weights},
          {"gradients", m.gradients},
          {"optimizer", m.optimizer},
          {"predicted", m.predicted()},
          {"resident", m.resident},
          {"error", m.error() ? nlohmann::json(*m.error()) : nlohmann::json()}};
}

void print_memory(const MemoryCheck& m) {
  const auto line = [](const char* what, std::size_t bytes) {
    fmt::print("{:<30}{:>16} B  {:>10}\n", what, bytes, format_bytes(bytes));
  };
  line("weights", m.weights);
  line("gradients", m.gradients);
  line("optimiser's state", m.optimizer);
  line("arena, predicted", m.arena.predicted);
  line("arena, measured", m.arena.measured);
  line("all of it, predicted", m.predicted());
  line("growth of the resident set", m.resident);
  if (const auto error = m.error()) {
    fmt::print("{:<30}{:>+15.2f} %\n", "error", 100 * *error);
  } else {
    fmt::print("{:<30}{:>16}\n", "error", fmt::format("–, below {}", format_bytes(kTellingGrowth)));
  }
}

nlohmann::json time_json(const std::optional<TimePrediction>& predicted, const Samples& measured) {
  nlohmann::json json = {
      {"measured", measured.median()}, {"best", measured.best()}, {"spread", measured.spread()}};
  if (predicted) {
    json["predicted"] = predicted->seconds;
    json["low"] = predicted->low;
    json["high"] = predicted->high;
    json["error"] = predicted->seconds / measured.median() - 1.0;
  }
  return json;
}

void print_verification_json(const Verification& v) {
  nlohmann::json json = {
      {"counts", nlohmann::json::array()},
      {"counts_equal", v.counts_equal()},
      {"arena",
       {{"inference",
         {{"predicted", v.inference_arena.predicted}, {"measured", v.inference_arena.measured}}},
        {"training",
         {{"predicted", v.training_arena.predicted}, {"measured", v.training_arena.measured}}}}},
      {"time",
       {{"forward", time_json(v.predicted_forward, v.forward)},
        {"step", time_json(v.predicted_step, v.step)}}}};
  for (const CountCheck& c : v.counts) {
    json["counts"].push_back(
        {{"phase", c.phase},
         {"predicted", {{"maccs", c.predicted.maccs}, {"flops", c.predicted.flops()}}},
         {"measured", {{"maccs", c.measured.maccs}, {"flops", c.measured.flops()}}},
         {"equal", c.equal()}});
  }
  fmt::print("{}\n", json.dump(2));
}

std::string mark(bool equal) { return equal ? "equal" : "DIFFERENT"; }

void add_time(const char* what, const std::optional<TimePrediction>& predicted,
              const Samples& measured, Table& to) {
  const auto ms = [](double seconds) { return fmt::format("{:.3f}", 1e3 * seconds); };
  const double seconds = measured.median();
  if (!predicted) {
    to.add({what, "", "not calibrated", ms(seconds)});
  } else {
    to.add({what, ms(predicted->seconds), ms(predicted->low) + " to " + ms(predicted->high),
            ms(seconds), fmt::format("{:+.1f} %", 100 * (predicted->seconds / seconds - 1.0))});
  }
}

void print_tables(const Verification& v) {
  Table counts({{""},
                {"predicted", true, false, "MACCs"},
                {"measured", true, false, "MACCs"},
                {"predicted", true, false, "FLOPs"},
                {"measured", true, false, "FLOPs"},
                {""}});
  const auto digits = [](std::uint64_t count) { return fmt::format("{}", count); };
  for (const CountCheck& c : v.counts) {
    counts.add({std::string(c.phase), digits(c.predicted.maccs), digits(c.measured.maccs),
                digits(c.predicted.flops()), digits(c.measured.flops()), mark(c.equal())});
  }
  counts.print();
  Table arena({{"arena, bytes"}, {"predicted", true}, {"measured", true}, {""}});
  for (const bool training : {false, true}) {
    const BytesCheck& b = training ? v.training_arena : v.inference_arena;
    arena.add({training ? "training" : "inference", digits(b.predicted), digits(b.measured),
               mark(b.predicted == b.measured)});
  }
  fmt::print("\n");
  arena.print();
  Table times(
      {{"time, ms"}, {"predicted", true}, {"interval", true}, {"measured", true}, {"error", true}});
  add_time("forward", v.predicted_forward, v.forward, times);
  add_time("training step", v.predicted_step, v.step, times);
  fmt::print("\n");
  times.print();
  if (!v.predicted_forward) {
    fmt::print("run longspan calibrate once to have times predicted\n");
  }
  const double spread = std::max(v.forward.spread(), v.step.spread());
  if (spread > kNoisy) {
    fmt::print("the machine is noisy: repeated measurements differ by {:.0f} %\n", 100 * spread);
  }
}

}  // namespace

void print_verification(const Workload& workload, const VerifyOptions& options,
                        const Common& common) {
  const RunShape shape = run_shape(workload);
  check_fits(workload);
  if (options.memory) {
    const MemoryCheck memory = check_memory(workload.model, shape);
    if (common.json) {
      fmt::print("{}\n", memory_json(memory).dump(2));
    } else {
      print_memory(memory);
    }
    return;
  }
  const std::optional<Calibration> calibrated = known_calibration(common);
  const Verification v = verify(workload.model, shape, calibrated ? &*calibrated : nullptr);
  if (common.json) return print_verification_json(v);
  print_tables(v);
}

}  // namespace longspan::cli
