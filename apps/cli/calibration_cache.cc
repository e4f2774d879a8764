#include "calibration_cache.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "longspan/base/error.h"
#include "longspan/io/json_file.h"
#include "longspan/predict/calibrate.h"

namespace longspan::cli {

std::optional<Calibration> known_calibration() {
  try {
    return cached_calibration();
  } catch (const SystemError&) {
    throw;
  } catch (const Error&) {  // of another version
    return std::nullopt;
  }
}

Calibration calibration_for(const Common& common) {
  if (std::optional<Calibration> cached = known_calibration()) return *cached;
  const Machine machine = this_machine();
  if (!common.quiet) {
    fmt::print(stderr,
               "this machine is not calibrated for {} thread{}: measuring it first, once, in "
               "about a minute\n",
               machine.threads, machine.threads == 1 ? "" : "s");
  }
  Calibration calibration = calibrate([&](std::string_view part) {
    if (!common.quiet) fmt::print(stderr, "  {}\n", part);
  });
  const std::filesystem::path path = calibration_path(machine);
  try {
    std::filesystem::create_directories(path.parent_path());
    write_json(path, to_json(calibration));
  } catch (const std::exception& e) {  // it serves this run all the same
    if (!common.quiet) fmt::print(stderr, "the calibration could not be kept: {}\n", e.what());
  }
  return calibration;
}

}  // namespace longspan::cli
