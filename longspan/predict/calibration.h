// What a machine's seconds depend on, measured once: coefficients that turn the quantities of
// Operation into seconds.
//
//   seconds of a call = Σ_j coefficient_j · quantity_j
//
// Each kind of call has two sets: `warm` for operands that are in the caches, `cold` for operands
// that come from memory. A pass whose working set lies between the caches and memory is in between.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/field_range.h"
#include "longspan/cost/device.h"

namespace longspan {

struct Rates {
  std::vector<double> warm;
  std::vector<double> cold;  // empty: as warm
  double error = 0.0;        // root mean square of the fit's relative errors

  template <class Self, class See>
  static void visit(Self& self, See see) {
    constexpr FieldRange kSeconds{0.0, 1e3};  // for each of a quantity
    see("warm", self.warm, kSeconds);
    see("cold", self.cold, kSeconds);
    see("error", self.error, FieldRange{0.0, 1e2});
  }
};

// A whole pass takes factor · (seconds of its calls) + call · (number of its calls), and scatters
// about that (standard deviation of the logarithm).
struct Closing {
  double factor = 1.0;
  double call = 0.0;
  double spread = 0.0;

  template <class Self, class See>
  static void visit(Self& self, See see) {
    see("factor", self.factor, FieldRange{1e-3, 1e3});
    see("call", self.call, FieldRange{0.0, 1.0});
    see("spread", self.spread, FieldRange{0.0, 10.0});
  }
};

struct Machine {
  std::string cpu;
  std::string instructions;  // "AVX2"
  int threads = 1;
  std::string version;  // of longspan

  bool operator==(const Machine&) const = default;
};

struct Calibration {
  Machine machine;
  double fma_peak = 0.0;      // FLOP/s
  double bandwidth = 0.0;     // bytes/s, streaming from memory
  double call_seconds = 0.0;  // of a call that does next to nothing
  double caches = 0.0;        // bytes that are surely warm
  double memory = 0.0;        // bytes that are surely cold
  std::map<std::string, Rates, std::less<>> rates;
  Closing forward;
  Closing training;
  double seconds = 0.0;  // that calibrating took

  template <class Self, class See>
  static void visit(Self& self, See see) {
    constexpr FieldRange kRate{1.0, 1e24};  // per second
    constexpr FieldRange kBytes{1.0, 0x1p60};
    see("cpu", self.machine.cpu);
    see("instructions", self.machine.instructions);
    see("threads", self.machine.threads, FieldRange{1.0, 0x1p20});
    see("version", self.machine.version);
    see("fma_peak", self.fma_peak, kRate);
    see("bandwidth", self.bandwidth, kRate);
    see("call_seconds", self.call_seconds, FieldRange{0.0, 1.0});
    see("caches", self.caches, kBytes);
    see("memory", self.memory, kBytes);
    see("forward", self.forward);
    see("training", self.training);
    see("seconds", self.seconds, FieldRange{0.0, 1e9});
    see("rates", self.rates);
  }
};

Machine this_machine();

// This machine as a device: peak, bandwidth and the share of the peak that products reach are
// measured; the power is not, and is assumed from the number of threads.
Device device_of(const Calibration& calibration);

nlohmann::json to_json(const Calibration& calibration);
// `where` opens every message. Throws Error, with the path of what is wrong, for what is not a
// calibration or does not know every rate: predictions rely on what is checked here.
Calibration calibration_from(std::string_view where, const nlohmann::json& json);

// $XDG_CACHE_HOME/longspan, or ~/.cache/longspan; one file per machine and number of threads.
std::filesystem::path calibration_path(const Machine& machine);
// Throws Error that says what to do when there is none, or it is not one of this machine.
Calibration load_calibration(const std::filesystem::path& path);
// That of this machine and number of threads, if it has been made. Throws Error like
// load_calibration when it is unusable.
std::optional<Calibration> cached_calibration();

}  // namespace longspan
