// Configs are plain structs with defaults, operator== and one visit() that names the fields; from
// that they are read from "key=value,…" and printed. A field may say, behind its value, what it is
// for: see("length", length, "Tokens per sequence").
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "longspan/base/error.h"

namespace longspan {

// The entry of `known` that is closest in spelling to `name` (edit distance).
std::string_view nearest(std::string_view name, const std::vector<std::string_view>& known);

// "[who] unknown X 'flsh'; did you mean 'flash'? Known: full, flash"
[[noreturn]] void throw_unknown(std::string_view who, std::string_view what, std::string_view name,
                                const std::vector<std::string_view>& known);

// "a|b" → a, b; an empty text is one empty part.
std::vector<std::string> split_list(std::string_view text, char separator);

// Numbers and switches from text; throws Error "[who] key is 'text'; need a …".
std::int64_t parse_integer(std::string_view who, std::string_view key, std::string_view text);
double parse_number(std::string_view who, std::string_view key, std::string_view text);
bool parse_switch(std::string_view who, std::string_view key, std::string_view text);

namespace detail {
std::vector<std::pair<std::string, std::string>> split_options(std::string_view who,
                                                               std::string_view options);
}  // namespace detail

// Sets the field of `config` that is called `key`.
template <class Config>
void set_option(std::string_view who, std::string_view key, std::string_view text, Config& config) {
  bool found = false;
  std::vector<std::string_view> known;
  config.visit([&](std::string_view name, auto& field, auto&&... /*what for*/) {
    known.push_back(name);
    if (name != key) return;
    found = true;
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::same_as<Field, bool>) {
      field = parse_switch(who, key, text);
    } else if constexpr (std::integral<Field>) {
      const std::int64_t value = parse_integer(who, key, text);
      require(std::in_range<Field>(value), "[{}] {} is '{}'; need a whole number {}", who, key,
              text, value < 0 ? "of 0 or more" : "that is smaller");
      field = static_cast<Field>(value);
    } else if constexpr (std::floating_point<Field>) {
      field = static_cast<Field>(parse_number(who, key, text));
    } else if constexpr (requires { Field::from(who, text); }) {
      field = Field::from(who, text);
    } else {
      field = text;
    }
  });
  if (!found) throw_unknown(who, "option", key, known);
}

// Sets the fields of `config` that "key=value,…" names.
template <class Config>
void parse_options(std::string_view who, std::string_view options, Config& config) {
  for (const auto& [key, text] : detail::split_options(who, options)) {
    set_option(who, key, text, config);
  }
}

}  // namespace longspan
