#include "longspan/predict/calibration.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/base/meter.h"
#include "longspan/base/parallel.h"
#include "longspan/io/json_file.h"
#include "longspan/kernels/gemm/fma_peak.h"
#include "longspan/predict/operation.h"

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

nlohmann::json to_json(const Closing& c) {
  return {{"factor", c.factor}, {"call", c.call}, {"spread", c.spread}};
}

Closing closing_from(const nlohmann::json& json) {
  return {json.at("factor"), json.at("call"), json.at("spread")};
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
          .title = fmt::format("{}, {} threads", c.machine.cpu, c.machine.threads),
          .kind = DeviceKind::kCpu,
          .peak = {{"fp32", c.fma_peak}},
          .bandwidth = c.bandwidth,
          .memory = static_cast<double>(available_memory()),
          .power = kWattsPerThread * threads,
          .usual = Range::between(0.6 * reached, reached)};
}

nlohmann::json to_json(const Calibration& c) {
  nlohmann::json json = {{"format", kFormat},
                         {"cpu", c.machine.cpu},
                         {"instructions", c.machine.instructions},
                         {"threads", c.machine.threads},
                         {"version", c.machine.version},
                         {"fma_peak", c.fma_peak},
                         {"bandwidth", c.bandwidth},
                         {"call_seconds", c.call_seconds},
                         {"caches", c.caches},
                         {"memory", c.memory},
                         {"forward", to_json(c.forward)},
                         {"training", to_json(c.training)},
                         {"seconds", c.seconds},
                         {"rates", nlohmann::json::object()}};
  for (const auto& [name, r] : c.rates) {
    json["rates"][name] = {{"warm", r.warm}, {"cold", r.cold}, {"error", r.error}};
  }
  return json;
}

Calibration calibration_from(std::string_view where, const nlohmann::json& json) {
  Calibration c;
  try {
    require(json.at("format") == kFormat, "{}: is of another format; run longspan calibrate again",
            where);
    c.machine = {json.at("cpu"), json.at("instructions"), json.at("threads"), json.at("version")};
    c.fma_peak = json.at("fma_peak");
    c.bandwidth = json.at("bandwidth");
    c.call_seconds = json.at("call_seconds");
    c.caches = json.at("caches");
    c.memory = json.at("memory");
    c.forward = closing_from(json.at("forward"));
    c.training = closing_from(json.at("training"));
    c.seconds = json.at("seconds");
    for (const auto& [name, r] : json.at("rates").items()) {
      c.rates[name] = {r.at("warm"), r.at("cold"), r.at("error")};
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("{}: is not a calibration; run longspan calibrate again", where));
  }
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
  require(std::filesystem::exists(path),
          "[calibrate] this machine is not calibrated for {} threads; run longspan calibrate first",
          thread_count());
  const std::string where = "[calibrate] " + path.string();
  Calibration c = calibration_from(where, read_json(path));
  require(c.machine == this_machine(),
          "{}: is for {} with {} threads, longspan {}; run longspan calibrate again", where,
          c.machine.cpu, c.machine.threads, c.machine.version);
  for (const Mechanism& m : mechanisms()) {
    require(c.rates.contains(attention_rate(m.name, Phase::kForward)),
            "{}: does not know {}; run longspan calibrate again", where, m.name);
  }
  return c;
}

std::optional<Calibration> cached_calibration() {
  const std::filesystem::path path = calibration_path(this_machine());
  if (!std::filesystem::exists(path)) return std::nullopt;
  return load_calibration(path);
}

}  // namespace longspan
