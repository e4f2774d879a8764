// Configs are plain structs with defaults, operator== and one visit() that names the fields; from
// that they are read from "key=value,…" and printed. A field may say, behind its value, what it is
// for and what a number may be: see("length", length, "Tokens per sequence", from_to(1, 1e7)).
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/number.h"

namespace longspan {

// The entry of `known` that is closest in spelling to `name` (edit distance).
std::string_view nearest(std::string_view name, const std::vector<std::string_view>& known);
// The same, or nothing where even that one is another word.
std::string_view similar(std::string_view name, const std::vector<std::string_view>& known);

// "[who] unknown X 'flsh'; did you mean 'flash'? Known: full, flash"
[[noreturn]] void throw_unknown(std::string_view who, std::string_view what, std::string_view name,
                                const std::vector<std::string_view>& known);

// "a|b" → a, b; an empty text is one empty part.
std::vector<std::string> split_list(std::string_view text, char separator);

// Numbers, whatever their type holds, and switches from text; throw Error "[who] key is 'text'; need
// a …".
inline std::int64_t parse_integer(std::string_view who, std::string_view key,
                                  std::string_view text) {
  return read_number<std::int64_t>(who, key, text);
}
inline double parse_number(std::string_view who, std::string_view key, std::string_view text) {
  return read_number<double>(who, key, text);
}
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
  config.visit([&](std::string_view name, auto& field, const auto&... more) {
    known.push_back(name);
    if (name != key) return;
    found = true;
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::same_as<Field, bool>) {
      field = parse_switch(who, key, text);
    } else if constexpr (detail::kIsNumber<Field>) {
      field = read_number<Field>(who, key, text, bounds_among<Field>(more...));
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
