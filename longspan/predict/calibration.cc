#include "longspan/predict/calibration.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/base/meter.h"
#include "longspan/base/number.h"
#include "longspan/base/parallel.h"
#include "longspan/io/json_file.h"
#include "longspan/io/record_json.h"
#include "longspan/kernels/gemm/fma_peak.h"
#include "longspan/predict/kernel_calls.h"

namespace longspan {

namespace {

constexpr int kFormat = 4;

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

// What no type and no range says: predictions multiply the rates with that many quantities.
void check_rates(std::string_view where, const Calibration& c) {
  for (const auto& [name, count] : calibrated_rates()) {
    const RecordPlace place{where, fmt::format("rates.{}", name)};
    const auto it = c.rates.find(name);
    if (it == c.rates.end()) place.refuse("is missing");
    const auto expect = [&, count = count](const char* set, const std::vector<double>& rates) {
      if (rates.size() == count) return;
      place.in(set).refuse(fmt::format("has {} numbers; need {}", rates.size(), count));
    };
    expect("warm", it->second.warm);
    if (!it->second.cold.empty()) expect("cold", it->second.cold);
  }
}

}  // namespace

Machine this_machine() {
  return {.cpu = cpu_name(),
          .instructions = std::string(instruction_set()),
          .threads = thread_count(),
          .version = LONGSPAN_VERSION};
}

Device device_of(const Calibration& c) {
  constexpr double kWattsPerThread = 10.0;
  const auto threads = static_cast<double>(c.machine.threads);
  const double product = c.rates.at("product forward").warm.at(0);
  const double reached = std::min(1.0, 2.0 * threads / std::max(product * c.fma_peak, 1e-30));
  return {.name = "this",
          .title = fmt::format("{}, {}", c.machine.cpu, counted(c.machine.threads, "thread")),
          .kind = DeviceKind::kCpu,
          .peak = {{"fp32", c.fma_peak}},
          .bandwidth = c.bandwidth,
          .memory = static_cast<double>(available_memory()),
          .power = kWattsPerThread * threads,
          .usual = Range::between(0.6 * reached, reached)};
}

nlohmann::json to_json(const Calibration& c) {
  nlohmann::json json = record_to_json(c);
  json["format"] = kFormat;
  return json;
}

Calibration calibration_from(std::string_view where, const nlohmann::json& json) {
  require(json.is_object() && json.contains("format"), "{}: is not a calibration", where);
  require(json.at("format") == kFormat, "{}: is of another format", where);
  Calibration c;
  const RecordPlace place{.where = where, .path = "", .whole = true};
  read_record(place, json, c);
  if (c.memory <= c.caches) place.in("memory").refuse("is not more than the caches; need more");
  check_rates(where, c);
  return c;
}

std::filesystem::path calibration_path(const Machine& machine) {
  std::string name;
  for (const char c : machine.cpu) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!plain && !name.empty() && name.back() != '-') name += '-';
  }
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base = cache != nullptr && *cache != '\0'
                                         ? std::filesystem::path(cache)
                                     : home != nullptr ? std::filesystem::path(home) / ".cache"
                                                       : std::filesystem::temp_directory_path();
  return base / "longspan" /
         fmt::format("{}-{}-{}t-{}.json", name, machine.instructions, machine.threads,
                     machine.version);
}

Calibration load_calibration(const std::filesystem::path& path) {
  std::error_code ignored;
  require(std::filesystem::exists(path, ignored),
          "[calibrate] no calibration of this machine for {} in {}; run longspan calibrate first",
          counted(static_cast<std::uint64_t>(thread_count()), "thread"), path.string());
  const std::string where = "[calibrate] " + path.string();
  try {
    Calibration c = calibration_from(where, read_json(path));
    require(c.machine == this_machine(), "{}: is for {} with {}, longspan {}", where, c.machine.cpu,
            counted(c.machine.threads, "thread"), c.machine.version);
    return c;
  } catch (const SystemError&) {
    throw;
  } catch (const Error& e) {
    throw Error(fmt::format("{}; run longspan calibrate again", e.what()));
  }
}

std::optional<Calibration> cached_calibration() {
  const std::filesystem::path path = calibration_path(this_machine());
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  return load_calibration(path);
}

}  // namespace longspan
