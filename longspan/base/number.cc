#include "longspan/base/number.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace longspan {

namespace {

struct NumberUnit {
  std::string_view name;
  std::uint64_t factor;
};
constexpr std::array<NumberUnit, 7> kNumberUnits = {{{"", 1},
                                                     {"k", 1'000},
                                                     {"M", 1'000'000},
                                                     {"G", 1'000'000'000},
                                                     {"Ki", 1U << 10U},
                                                     {"Mi", 1U << 20U},
                                                     {"Gi", 1U << 30U}}};

std::optional<std::uint64_t> unit_from(std::string_view name) {
  for (const NumberUnit& unit : kNumberUnits) {
    if (unit.name == name) return unit.factor;
  }
  return std::nullopt;
}

__extension__ using Wide = unsigned __int128;
constexpr Wide kMostWide = Wide{1} << 90U;  // times any unit it is still a Wide

// digits · 10^power
struct Digits {
  Wide digits = 0;
  long power = 0;
};

// Takes "1.5e3" off the front of `text`.
std::optional<Digits> take_digits(std::string_view& text) {
  Digits taken;
  bool any = false;
  bool behind_point = false;
  for (; !text.empty(); text.remove_prefix(1)) {
    const char c = text.front();
    if (c == '.' && !behind_point) {
      behind_point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    any = true;
    taken.digits = 10 * taken.digits + static_cast<unsigned>(c - '0');
    if (behind_point) --taken.power;
    if (taken.digits > kMostWide) return std::nullopt;
  }
  if (!any) return std::nullopt;
  if (text.empty() || (text.front() != 'e' && text.front() != 'E')) return taken;
  text.remove_prefix(text.substr(1).starts_with('+') ? 2 : 1);
  int exponent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  taken.power += exponent;
  return taken;
}

// 4096 and 0.5 as they are, and 1e9 and 2^32, which nobody reads otherwise.
std::string end_in_words(double value) {
  const double size = std::abs(value);
  if (size < 1e6) return fmt::format("{}", value);
  const char* sign = value < 0.0 ? "-" : "";
  int power = 0;
  if (std::frexp(size, &power) == 0.5) return fmt::format("{}2^{}", sign, power - 1);
  const double tens = std::floor(std::log10(size) + 1e-9);
  const double front = size / std::pow(10.0, tens);
  if (front == std::floor(front)) return fmt::format("{}{}e{}", sign, front, tens);
  return fmt::format("{:.0f}", value);
}

}  // namespace

namespace detail {

std::optional<std::uint64_t> natural_from(std::string_view text) {
  std::optional<Digits> written = take_digits(text);
  const std::optional<std::uint64_t> unit = unit_from(text);
  if (!written || !unit) return std::nullopt;
  Wide value = written->digits * *unit;
  if (value == 0) return 0;
  constexpr Wide kMost = std::numeric_limits<std::uint64_t>::max();
  for (; written->power < 0; ++written->power) {
    if (value % 10 != 0) return std::nullopt;  // a fraction
    value /= 10;
  }
  for (; written->power > 0 && value <= kMost; --written->power) value *= 10;
  if (value > kMost) return std::nullopt;
  return static_cast<std::uint64_t>(value);
}

std::optional<double> decimal_from(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  const auto unit = unit_from(text.substr(static_cast<std::size_t>(end - text.data())));
  if (!unit) return std::nullopt;
  value *= static_cast<double>(*unit);
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

void refuse_number(std::string_view who, std::string_view key, std::string_view got,
                   const Bounds& bounds, bool whole) {
  throw Error(fmt::format("[{}] {} is {}; need {}", who, key, got, in_words(bounds, whole)));
}

}  // namespace detail

std::string ends_in_words(const Bounds& bounds) {
  // Nobody writes what a type holds at most.
  constexpr double kEndless = 1e100;
  constexpr double kSigned = 0x1p63;
  if (bounds.least <= -kSigned && bounds.most >= kSigned) return "";
  const std::string least = end_in_words(bounds.least);
  if (bounds.most >= kEndless) return fmt::format("{} {}", bounds.above ? "above" : "from", least);
  const std::string most = end_in_words(bounds.most);
  // As doubles, of 2^63 − 1 and 2^64 − 1.
  const bool beyond = bounds.below || bounds.most == kSigned || bounds.most == 2 * kSigned;
  if (bounds.above)
    return fmt::format("above {}, {} {}", least, beyond ? "below" : "at most", most);
  return fmt::format("from {}{} {}", least, beyond ? ", below" : " to", most);
}

std::string counted(std::uint64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string in_words(const Bounds& bounds, bool whole) {
  const std::string ends = ends_in_words(bounds);
  const std::string what = whole ? "a whole number" : ends.empty() ? "a finite number" : "a number";
  return ends.empty() ? what : what + " " + ends;
}

}  // namespace longspan
