// Records (structs of plain data with a static visit(self, see)) as JSON, both ways. Nothing is
// null.
//
// A record says what its numbers may be: see(name, field, range). Whoever has read one may rely on
// it, and on texts that are one line and lists that are not endless.
#pragma once

#include <cmath>
#include <concepts>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/base/field_range.h"
#include "longspan/io/file.h"

namespace longspan {

inline constexpr std::size_t kMostItems = 1U << 14U;  // of a list
inline constexpr std::size_t kMostText = 1U << 16U;   // bytes

namespace detail {
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class T>
struct IsMap<std::map<std::string, T, std::less<>>> : std::true_type {};
}  // namespace detail

// Without the control characters that would move a terminal's cursor.
inline std::string plain_text(std::string_view text) {
  std::string plain(text);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const auto byte = static_cast<unsigned char>(plain[i]);
    const auto before = static_cast<unsigned char>(i > 0 ? plain[i - 1] : 'a');
    if (byte < 0x20 || byte == 0x7F) plain[i] = ' ';
    // U+0080 to U+009F are control characters too; U+00A0 is a space.
    if (before == 0xC2 && byte >= 0x80 && byte < 0xA0) plain[i] = '\xA0';
  }
  return plain;
}

template <class T>
nlohmann::json record_to_json(const T& value) {
  if constexpr (detail::IsOptional<T>::value) {
    return value ? record_to_json(*value) : nlohmann::json(nullptr);
  } else if constexpr (detail::IsVector<T>::value) {
    nlohmann::json array = nlohmann::json::array();
    for (const auto& item : value) array.push_back(record_to_json(item));
    return array;
  } else if constexpr (detail::IsMap<T>::value) {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& [name, item] : value) object[name] = record_to_json(item);
    return object;
  } else if constexpr (std::floating_point<T>) {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
  } else if constexpr (std::same_as<T, std::string>) {
    return plain_text(value);
  } else if constexpr (std::integral<T>) {
    return value;
  } else if constexpr (requires { value.name(); }) {
    return value.name();
  } else {
    nlohmann::json object = nlohmann::json::object();
    T::visit(value, [&](const char* name, const auto& field, auto... /*range*/) {
      object[name] = record_to_json(field);
    });
    return object;
  }
}

// `path` names the value in messages: "points[3].time.measured".
struct RecordPlace {
  std::string_view where;
  std::string path;
  bool whole = false;  // a field that is missing is an error, not its default

  RecordPlace in(std::string_view name) const {
    return {where, path.empty() ? std::string(name) : fmt::format("{}.{}", path, name), whole};
  }
  RecordPlace at(std::size_t index) const {
    return {where, fmt::format("{}[{}]", path, index), whole};
  }
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(fmt::format("{}: '{}' {}", where, path, what));
  }
  // Throws Error unless it is right: "where: 'path' is value; need …".
  void expect(bool right, const nlohmann::json& value, std::string_view need) const {
    if (right) return;
    // Escaped, so that no terminal obeys it.
    std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 37) + "...";
    refuse(fmt::format("is {}; need {}", text, need));
  }
  void expect_in(FieldRange range, const nlohmann::json& value, bool counts) const {
    if (range.contains(value.get<double>())) return;
    expect(false, value,
           counts ? fmt::format("a whole number from {:.0f} to {:.0f}", range.least, range.most)
                  : fmt::format("a number from {:g} to {:g}", range.least, range.most));
  }
};

template <class T, class... Ranges>
void read_record(const RecordPlace& place, const nlohmann::json& value, T& field,
                 [[maybe_unused]] const Ranges&... range) {
  if constexpr (detail::IsOptional<T>::value) {
    if (value.is_null()) return field.reset();
    read_record(place, value, field.emplace(), range...);
  } else if constexpr (detail::IsVector<T>::value) {
    place.expect(value.is_array(), value, "a list");
    if (value.size() > kMostItems) {
      place.refuse(fmt::format("has {} items; need at most {}", value.size(), kMostItems));
    }
    field.resize(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) {
      read_record(place.at(i), value[i], field[i], range...);
    }
  } else if constexpr (detail::IsMap<T>::value) {
    place.expect(value.is_object(), value, "an object");
    for (const auto& [name, item] : value.items()) {
      read_record(place.in(printable(name)), item, field[name], range...);
    }
  } else if constexpr (std::same_as<T, bool>) {
    place.expect(value.is_boolean(), value, "true or false");
    field = value.get<bool>();
  } else if constexpr (std::integral<T>) {
    const bool counts =
        value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
    place.expect(counts, value, "a whole number from 0");
    (place.expect_in(range, value, /*counts=*/true), ...);
    place.expect(std::in_range<T>(value.get<std::uint64_t>()), value, "a smaller number");
    field = value.get<T>();
  } else if constexpr (std::floating_point<T>) {
    place.expect(value.is_number() && std::isfinite(value.get<double>()), value, "a number");
    (place.expect_in(range, value, /*counts=*/false), ...);
    field = value.get<T>();
  } else if constexpr (std::same_as<T, std::string>) {
    place.expect(value.is_string(), value, "text");
    field = value.get<std::string>();
    place.expect(field.size() <= kMostText, value, fmt::format("at most {} bytes", kMostText));
    place.expect(plain_text(field) == field, value, "one line without control characters");
  } else if constexpr (requires { field.name(); }) {
    place.expect(value.is_string(), value, "text");
    const auto found = T::find(value.get_ref<const std::string&>());
    place.expect(found.has_value(), value, T::list());
    field = *found;
  } else {
    place.expect(value.is_object(), value, "an object");
    T::visit(field, [&](const char* name, auto& part, const auto&... allowed) {
      const auto it = value.find(name);
      if (it != value.end()) {
        read_record(place.in(name), *it, part, allowed...);
      } else if (place.whole) {
        place.in(name).refuse("is missing");
      }
    });
  }
}

}  // namespace longspan
