#include "longspan/cost/budget.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/error.h"

namespace longspan {

namespace {

constexpr double kSecondsPerHour = 3600.0;

// Of positive ranges.
Range operator*(const Range& a, const Range& b) {
  return {a.low * b.low, a.mid * b.mid, a.high * b.high};
}
Range operator/(const Range& a, const Range& b) {
  return {a.low / b.high, a.mid / b.mid, a.high / b.low};
}
Range operator*(double s, const Range& a) { return {s * a.low, s * a.mid, s * a.high}; }

void require_positive(const char* what, double value) {
  require(std::isfinite(value) && value > 0.0, "[plan] {} {}; need a number above 0", value, what);
}

}  // namespace

Assumption assumed_utilisation(const Device& device) {
  if (device.usual) {
    return {*device.usual, device.name == "this" ? "measured: large products reach the upper end"
                                                 : "what large training runs reach on it"};
  }
  if (device.kind == DeviceKind::kCpu) return {Range::between(0.4, 0.8), "dense products on CPUs"};
  return {Range::between(0.3, 0.5), "large training runs on accelerators"};
}

Assumption assumed_power(const Device& device) {
  if (device.name == "this") {
    return {Range::between(0.5 * device.power, 1.5 * device.power),
            "not measured: 5 to 15 W per thread, as in servers"};
  }
  return {
      Range::between(0.7 * device.power, 1.3 * device.power),
      "0.7 to 1.3 × the data sheet's limit: a chip seldom draws all of it, its host adds to it"};
}

Assumption assumed_pue() {
  return {Range::between(1.1, 1.58), "the largest operators; the mean of a 2023 industry survey"};
}

Assumption assumed_grid() {
  return {{30.0, 480.0, 700.0}, "hydro and nuclear grids; the world's mean in 2023; coal"};
}

std::optional<Assumption> assumed_price(const Device& device) {
  if (!device.price) return std::nullopt;
  return Assumption{*device.price, "list prices of public clouds, 2023-2024"};
}

Budget make_budget(const PlanInputs& in) {
  require_positive("FLOPs", in.flops);
  require_positive("devices", in.devices);
  require(in.utilisation.value.high <= 1.0,
          "[plan] a utilisation of {}; need a share of the peak, at most 1",
          in.utilisation.value.high);
  require(in.pue.value.low >= 1.0,
          "[plan] a PUE of {}; need 1 or more: a building draws no less than its machines",
          in.pue.value.low);
  Budget out;
  out.petaflop_days = in.flops / kPetaflopDay;
  out.achieved = peak_of(in.device, in.format) * in.utilisation.value;
  Range device_seconds = in.flops * (Range::exactly(1.0) / out.achieved);
  const double moving = in.bytes / in.device.bandwidth;
  out.bandwidth_bound = moving > device_seconds.mid;
  device_seconds = {std::max(device_seconds.low, moving), std::max(device_seconds.mid, moving),
                    std::max(device_seconds.high, moving)};
  out.seconds = (1.0 / in.devices) * device_seconds;
  out.device_hours = (1.0 / kSecondsPerHour) * device_seconds;
  out.machine_kwh = 1e-3 * (out.device_hours * in.power.value);
  out.total_kwh = out.machine_kwh * in.pue.value;
  out.machine_co2 = 1e-3 * (out.machine_kwh * in.grid.value);
  out.total_co2 = 1e-3 * (out.total_kwh * in.grid.value);
  if (in.money) {
    require_positive("USD", *in.money);
    out.money = Range::exactly(*in.money);
    out.price = *out.money / out.device_hours;
  } else if (in.price) {
    out.price = in.price->value;
    out.money = out.device_hours * *out.price;
  }
  return out;
}

}  // namespace longspan
