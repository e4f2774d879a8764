// From a number of FLOPs to time, energy, CO₂ and money on named devices.
//
//   seconds = FLOPs / (devices · peak · utilisation)   or bytes / (devices · bandwidth) if longer
//   energy  = devices · power · seconds                of the machines; · PUE for the building
//   CO₂     = energy · grid intensity
//   money   = devices · hours · price                  or, from money, the price that it implies
//
// Everything is a range: low takes the favourable end of each assumption, high the other.
#pragma once

#include <optional>
#include <string>

#include "longspan/cost/device.h"

namespace longspan {

inline constexpr double kPetaflopDay = 1e15 * 86400.0;  // FLOPs

// Where an assumption comes from goes with it, because a plan is worth what its assumptions are.
struct Assumption {
  Range value;
  std::string source;
};

struct PlanInputs {
  double flops = 0.0;
  double bytes = 0.0;  // moved in all, 0: not considered
  Device device;
  std::string format;  // of numbers
  double devices = 1.0;
  Assumption utilisation;
  Assumption power;  // W per device
  Assumption pue;    // power usage effectiveness: what the building draws / what its machines draw
  Assumption grid;   // g CO₂ per kWh
  std::optional<Assumption> price;  // USD per device-hour
  std::optional<double> money;      // USD in all
};

struct Budget {
  double petaflop_days = 0.0;
  Range achieved;  // FLOP/s of one device
  bool bandwidth_bound = false;
  Range seconds;
  Range device_hours;
  Range machine_kwh;
  Range total_kwh;    // with PUE
  Range machine_co2;  // kg
  Range total_co2;    // kg, with PUE
  std::optional<Range> money;
  std::optional<Range> price;  // given, or implied by money
};

// What is assumed where nothing is said.
Assumption assumed_utilisation(const Device& device);
Assumption assumed_power(const Device& device);
Assumption assumed_pue();
Assumption assumed_grid();
std::optional<Assumption> assumed_price(const Device& device);

// Throws Error where an input is not positive or a utilisation exceeds 1.
Budget make_budget(const PlanInputs& in);

}  // namespace longspan
