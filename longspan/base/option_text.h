// What the visit of a config says of its options, for people to read and to write.
#pragma once

#include <fmt/core.h>

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace longspan {

struct OptionText {
  std::string name;
  std::string standard;  // its value unless given
  std::string values;    // "a whole number", "qr, hadamard or none"
  std::string purpose;
};

namespace detail {

// Of what stands behind the value in see("name", field, …), the first that `words` has words for.
template <class Words>
std::string first_words(const Words& /*words*/) {
  return "";
}
template <class Words, class First, class... Rest>
std::string first_words(const Words& words, const First& first, const Rest&... rest) {
  const std::string found = words(first);
  return found.empty() ? first_words(words, rest...) : found;
}

template <class Field>
std::string values_of(const auto&... more) {
  if constexpr (std::same_as<Field, bool>) return "true or false";
  if constexpr (requires { Field::list(); }) return Field::list();
  if constexpr (!std::is_arithmetic_v<Field>) return "text";
  const std::string bounds = first_words(
      [](const auto& each) {
        if constexpr (requires { in_words(each, std::integral<Field>); }) {
          return in_words(each, std::integral<Field>);
        }
        return std::string();
      },
      more...);
  if (!bounds.empty()) return bounds;
  return std::integral<Field> ? "a whole number" : "a number";
}

std::string purpose_among(const auto&... more) {
  return first_words(
      [](const auto& each) {
        if constexpr (std::convertible_to<decltype(each), std::string_view>) {
          return std::string(std::string_view(each));
        }
        return std::string();
      },
      more...);
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
