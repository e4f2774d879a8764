#include "longspan/base/memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <string_view>

#include "longspan/base/config.h"

namespace longspan {

std::uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kibibytes = 0;
  std::string unit;
  while (file >> key >> kibibytes) {
    if (key == "MemAvailable:") return kibibytes * 1024;
    std::getline(file, unit);
  }
  return std::numeric_limits<std::uint64_t>::max();
}

void require_memory(std::string_view who, std::string_view what, std::uint64_t bytes) {
  const std::uint64_t have = available_memory();
  require(bytes <= have, "[{}] {} need {}; {} are available: use a smaller model", who, what,
          format_bytes(bytes), format_bytes(have));
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024.0;
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::uint64_t parse_bytes(std::string_view who, std::string_view key, std::string_view text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  // With or without the B; other numbers have the same units.
  static constexpr std::array<Unit, 12> kUnits = {{{"", 1.0},
                                                   {"Ki", 0x1p10},
                                                   {"Mi", 0x1p20},
                                                   {"Gi", 0x1p30},
                                                   {"Ti", 0x1p40},
                                                   {"Pi", 0x1p50},
                                                   {"k", 1e3},
                                                   {"K", 1e3},
                                                   {"M", 1e6},
                                                   {"G", 1e9},
                                                   {"T", 1e12},
                                                   {"P", 1e15}}};
  const std::size_t digits = std::min(text.find_first_not_of("0123456789.eE+"), text.size());
  std::string_view name = text.substr(digits);
  name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
  if (name.ends_with('B')) name.remove_suffix(1);
  for (const Unit& unit : kUnits) {
    if (unit.name != name || digits == 0) continue;
    const double bytes = parse_number(who, key, text.substr(0, digits)) * unit.bytes;
    if (bytes >= 1.0 && bytes <= 0x1p58) return static_cast<std::uint64_t>(bytes);
  }
  throw Error(fmt::format("[{}] {} is '{}'; need bytes from 1 to 256 PiB, as 16GiB, 16GB or 4096",
                          who, key, text));
}

}  // namespace longspan
