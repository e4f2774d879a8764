#include "calibration_cache.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "longspan/base/error.h"
#include "longspan/io/json_file.h"
#include "longspan/predict/calibrate.h"

namespace longspan::cli {

namespace {

// What is kept; where that is unusable, `otherwise` ends the sentence that says why.
std::optional<Calibration> kept_calibration(const Common& common, const char* otherwise) {
  try {
    return cached_calibration();
  } catch (const SystemError&) {
    throw;
  } catch (const Error& e) {
    if (!common.quiet) {
      fmt::print(stderr, "the calibration is unusable, {}: {}\n", otherwise, e.what());
    }
    return std::nullopt;
  }
}

}  // namespace

std::optional<Calibration> known_calibration(const Common& common) {
  return kept_calibration(common, "so no times are predicted");
}

Calibration calibration_for(const Common& common) {
  if (auto kept = kept_calibration(common, "so the machine is measured again")) return *kept;
  const Machine machine = this_machine();
  if (!common.quiet) {
    fmt::print(stderr, "measuring this machine for {} thread{} first, once, in a minute or two\n",
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
