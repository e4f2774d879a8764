// Numbers as people write them, and the bounds that each must keep.
//
// A whole number is written 1000, 1e3, 4k or 64Ki: k, M and G are powers of 1000, Ki, Mi and Gi of
// 1024. Other numbers are finite decimals, with the same units.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "longspan/base/error.h"

namespace longspan {

// From `least` to `most`, or without these ends themselves where they are open.
struct Bounds {
  double least = 0.0;
  double most = 0.0;
  bool above = false;  // least is outside
  bool below = false;  // most is outside

  // Whatever the type holds, and finite.
  template <class T>
  static constexpr Bounds of_type() {
    return {static_cast<double>(std::numeric_limits<T>::lowest()),
            static_cast<double>(std::numeric_limits<T>::max())};
  }

  // NaN is within no bounds. The ends are compared as a T: 0.1F is not above 0.1.
  template <class T>
  constexpr bool has(T value) const {
    using Compared = std::conditional_t<std::floating_point<T>, T, double>;
    const auto x = static_cast<Compared>(value);
    const auto low = static_cast<Compared>(least);
    const auto high = static_cast<Compared>(most);
    return (above ? x > low : x >= low) && (below ? x < high : x <= high);
  }

  bool operator==(const Bounds&) const = default;
};

constexpr Bounds from_to(double least, double most) { return {least, most, false, false}; }
constexpr Bounds above_to(double least, double most) { return {least, most, true, false}; }
constexpr Bounds from_below(double least, double most) { return {least, most, false, true}; }

// "1 thread", "2 threads"
std::string counted(std::uint64_t count, std::string_view one);

// "a whole number from 1 to 4096", "a number from 0, below 1", "a number above 0, at most 1000"
std::string in_words(const Bounds& bounds, bool whole);
// The same without what it is: "from 1 to 4096"; empty for bounds that bound nothing.
std::string ends_in_words(const Bounds& bounds);

namespace detail {
// What is no such number, or is beyond 64 bits or what a double holds, is none.
std::optional<std::uint64_t> natural_from(std::string_view text);
std::optional<double> decimal_from(std::string_view text);
[[noreturn]] void refuse_number(std::string_view who, std::string_view key, std::string_view got,
                                const Bounds& bounds, bool whole);

template <std::integral T>
std::optional<T> number_from(std::string_view text) {
  const bool negative = std::signed_integral<T> && text.starts_with('-');
  const std::optional<std::uint64_t> size = natural_from(text.substr(negative ? 1 : 0));
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  if (!size || *size > kMost) return std::nullopt;
  const T value = static_cast<T>(*size);
  return negative ? static_cast<T>(T{} - value) : value;
}
template <std::floating_point T>
std::optional<T> number_from(std::string_view text) {
  const std::optional<double> value = decimal_from(text);
  if (!value || !Bounds::of_type<T>().has(*value)) return std::nullopt;
  return static_cast<T>(*value);
}

template <class T>
inline constexpr bool kIsNumber = std::is_arithmetic_v<T> && !std::same_as<T, bool>;
}  // namespace detail

// The number that is written in `text`; throws Error "[who] key is 'text'; need …".
template <class T>
requires detail::kIsNumber<T> T read_number(std::string_view who, std::string_view key,
                                            std::string_view text,
                                            const Bounds& bounds = Bounds::of_type<T>()) {
  const std::optional<T> value = detail::number_from<T>(text);
  if (!value || !bounds.has(*value)) {
    detail::refuse_number(who, key, fmt::format("'{}'", text), bounds, std::integral<T>);
  }
  return *value;
}

// Throws Error "[who] key is 5000; need …".
template <class T>
requires detail::kIsNumber<T>
void require_within(std::string_view who, std::string_view key, T value, const Bounds& bounds) {
  if (!bounds.has(value)) {
    detail::refuse_number(who, key, fmt::format("{}", value), bounds, std::integral<T>);
  }
}

namespace detail {
constexpr void take_bounds(Bounds& bounds, const Bounds& given) { bounds = given; }
constexpr void take_bounds(Bounds& /*bounds*/, std::string_view /*what for*/) {}
}  // namespace detail

// The bounds among what stands behind a field in a config's visit(), or those of its type.
template <class T, class... More>
constexpr Bounds bounds_among(const More&... more) {
  Bounds bounds = Bounds::of_type<T>();
  (detail::take_bounds(bounds, more), ...);
  return bounds;
}

// Those of one of the config's own fields.
template <class Config, class T>
Bounds bounds_of(Config& config, const T& field) {
  Bounds bounds = Bounds::of_type<T>();
  config.visit([&](std::string_view /*name*/, auto& each, const auto&... more) {
    if (static_cast<const void*>(&each) == &field) bounds = bounds_among<T>(more...);
  });
  return bounds;
}

// Throws Error, in one sentence, where a number of the config is outside its bounds.
template <class Config>
void check_numbers(std::string_view who, Config config) {
  config.visit([&](std::string_view name, auto& field, const auto&... more) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (detail::kIsNumber<Field>) {
      require_within(who, name, field, bounds_among<Field>(more...));
    }
  });
}

}  // namespace longspan
