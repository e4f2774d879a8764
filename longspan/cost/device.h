// Devices: what a processor can do at most, and what it draws. A table in TOML, see
// data/devices.toml, which is part of the program; users add their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/choice.h"

namespace longspan {

// A figure that is known only to lie between two others.
struct Range {
  double low = 0.0;
  double mid = 0.0;
  double high = 0.0;

  static Range exactly(double value) { return {value, value, value}; }
  static Range between(double low, double high) { return {low, 0.5 * (low + high), high}; }
  bool exact() const { return low == high; }
  bool operator==(const Range&) const = default;
};

// "0.4" or "0.3:0.5"; throws Error "[who] key is 'text'; need …" unless 0 < low ≤ high.
Range parse_range(std::string_view who, std::string_view key, std::string_view text);

enum class DeviceKind : std::uint8_t { kAccelerator, kCpu };
constexpr Names<2> names_of(DeviceKind /*kind*/) {
  return {"devices", "kind", {"accelerator", "cpu"}};
}

struct Device {
  std::string name;
  std::string title;
  Choice<DeviceKind> kind = DeviceKind::kAccelerator;
  std::map<std::string, double, std::less<>> peak;  // FLOP/s by number format
  double bandwidth = 0.0;                           // bytes/s
  double memory = 0.0;                              // bytes
  double power = 0.0;                               // W
  std::optional<Range> usual;                       // share of the peak that training reaches
  std::optional<Range> price;                       // USD per hour
};

// The devices of a TOML text; `where` opens every message: "[devices] path". Throws Error with the
// line of what is wrong.
std::vector<Device> parse_devices(std::string_view where, std::string_view toml);

// The devices that come with the program, and those of `file` unless it is empty, which replace
// devices of the same name.
std::vector<Device> known_devices(const std::filesystem::path& file = {});

// Throws Error with the nearest name when there is none.
const Device& find_device(const std::vector<Device>& devices, std::string_view name);

// The peak for a number format; throws Error that lists the formats of the device.
double peak_of(const Device& device, std::string_view format);
// The format that training uses where nothing else is said: bf16, fp16, or else fp32.
std::string_view usual_format(const Device& device);

}  // namespace longspan
