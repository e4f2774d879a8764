// What the visit of a config says of its options, for people to read and to write.
#pragma once

#include <fmt/core.h>

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "longspan/base/number.h"

namespace longspan {

struct OptionText {
  std::string name;
  std::string standard;  // its value unless given
  std::string values;    // "a whole number from 1 to 63", "qr, hadamard or none"
  std::string purpose;
};

namespace detail {

template <class Field>
std::string values_of(const auto&... more) {
  if constexpr (std::same_as<Field, bool>) {
    return "true or false";
  } else if constexpr (kIsNumber<Field>) {
    return in_words(bounds_among<Field>(more...), std::integral<Field>);
  } else if constexpr (requires { Field::list(); }) {
    return Field::list();
  } else {
    return "text";
  }
}

// The text among what stands behind the value in see("name", field, …).
std::string purpose_among(const auto&... more) {
  std::string purpose;
  const auto look = [&](const auto& each) {
    if constexpr (std::convertible_to<decltype(each), std::string_view>) {
      purpose = std::string_view(each);
    }
  };
  (look(more), ...);
  return purpose;
}

}  // namespace detail

template <class Config>
std::vector<OptionText> option_texts() {
  std::vector<OptionText> all;
  Config config;
  config.visit([&](std::string_view name, auto& field, const auto&... more) {
    all.push_back({std::string(name), fmt::format("{}", field),
                   detail::values_of<std::remove_cvref_t<decltype(field)>>(more...),
                   detail::purpose_among(more...)});
  });
  return all;
}

// "key=value,…" of the options that are not at their default: what parse_options() reads.
template <class Config>
std::string written_options(Config config) {
  const std::vector<OptionText> standard = option_texts<Config>();
  std::string text;
  std::size_t at = 0;
  config.visit([&](std::string_view name, auto& field, const auto&... /*more*/) {
    const std::string value = fmt::format("{}", field);
    if (value != standard[at++].standard) {
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
    }
  });
  return text;
}

}  // namespace longspan
