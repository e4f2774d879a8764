// A calibration that needs no measuring: everything takes next to no time, all alike.
#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>
#include "longspan/io/json_file.h"
#include "longspan/predict/calibration.h"
#include "longspan/predict/kernel_calls.h"

namespace longspan::testing {

inline Calibration even_calibration() {
  Calibration c;
  c.machine = this_machine();
  c.fma_peak = 1e11;
  c.bandwidth = 1e10;
  c.call_seconds = 1e-6;
  c.caches = 1e6;
  c.memory = 1e8;
  for (const auto& [rate, count] : calibrated_rates()) c.rates[rate].warm.assign(count, 1e-13);
  return c;
}

// Where this machine's calibration is looked for.
inline std::filesystem::path write_calibration(const Calibration& c) {
  const std::filesystem::path path = calibration_path(this_machine());
  std::filesystem::create_directories(path.parent_path());
  write_json(path, to_json(c));
  return path;
}

}  // namespace longspan::testing
