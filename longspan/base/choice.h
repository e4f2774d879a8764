// A choice among names: an enum, as code compares it, that people write and read as a word.
//
//   enum class Wiring : std::uint8_t { kPost, kPre, kReversible };
//   constexpr Names<3> names_of(Wiring /*kind*/) {
//     return {"model", "wiring", {"post", "pre", "reversible"}};
//   }
//   struct Config { Choice<Wiring> wiring = Wiring::kPre; … see("wiring", wiring); };
//
// Enumerators count from 0, as the names do. A word that is no name is refused as soon as it is
// read, so that whoever has a choice has a valid one.
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "longspan/base/config.h"

namespace longspan {

template <std::size_t n>
struct Names {
  std::string_view who;   // says so when a word is none of them
  std::string_view what;  // is chosen
  std::array<std::string_view, n> all;
};

template <class Enum>
concept NamedEnum = std::is_enum_v<Enum> && requires(Enum e) {
  names_of(e).all;
};

template <NamedEnum Enum>
constexpr std::string_view name_of(Enum value) {
  return names_of(value).all[static_cast<std::size_t>(value)];
}

template <NamedEnum Enum>
constexpr std::optional<Enum> find_named(std::string_view word) {
  constexpr auto kNames = names_of(Enum{});
  for (std::size_t i = 0; i < kNames.all.size(); ++i) {
    if (kNames.all[i] == word) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

// Throws Error, with the nearest name, for a word that is none.
template <NamedEnum Enum>
Enum named(std::string_view who, std::string_view word) {
  if (const std::optional<Enum> found = find_named<Enum>(word)) return *found;
  constexpr auto kNames = names_of(Enum{});
  throw_unknown(who, kNames.what, word, {kNames.all.begin(), kNames.all.end()});
}

// "post, pre or reversible"
template <NamedEnum Enum>
std::string listed_names() {
  constexpr auto kNames = names_of(Enum{});
  std::string list;
  for (std::size_t i = 0; i < kNames.all.size(); ++i) {
    list += i == 0 ? "" : i + 1 == kNames.all.size() ? " or " : ", ";
    list += kNames.all[i];
  }
  return list;
}

template <NamedEnum Enum>
class Choice {
 public:
  // Implicit, so that a config is written with words or enumerators alike.
  // NOLINTBEGIN(google-explicit-constructor)
  constexpr Choice(Enum value) : value_(value) {}
  template <class Word>
  requires std::convertible_to<Word, std::string_view> Choice(const Word& word)
      : value_(named<Enum>(names_of(Enum{}).who, word)) {}

  constexpr operator Enum() const { return value_; }
  // NOLINTEND(google-explicit-constructor)
  constexpr std::string_view name() const { return name_of(value_); }

  static Choice from(std::string_view who, std::string_view word) { return named<Enum>(who, word); }
  static std::optional<Enum> find(std::string_view word) { return find_named<Enum>(word); }
  static std::string list() { return listed_names<Enum>(); }

  // As tests print it.
  template <class Stream>
  requires requires(Stream& to) { to << std::string_view(); }
  friend Stream& operator<<(Stream& to, const Choice& choice) {
    to << choice.name();
    return to;
  }

  constexpr bool operator==(const Choice&) const = default;
  constexpr bool operator==(Enum other) const { return value_ == other; }

 private:
  Enum value_;
};

}  // namespace longspan

// "{}" alone: widths and the like would take the rest of fmt into every file.
template <class Enum>
struct fmt::formatter<longspan::Choice<Enum>> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const longspan::Choice<Enum>& choice, Context& context) const {
    auto out = context.out();
    for (const char c : choice.name()) *out++ = c;
    return out;
  }
};
