// Records (structs of plain data with a static visit(self, see)) as JSON, both ways. Nothing is
// null.
#pragma once

#include <cmath>
#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "longspan/base/error.h"

namespace longspan {

namespace detail {
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
}  // namespace detail

template <class T>
nlohmann::json record_to_json(const T& value) {
  if constexpr (detail::IsOptional<T>::value) {
    return value ? record_to_json(*value) : nlohmann::json(nullptr);
  } else if constexpr (detail::IsVector<T>::value) {
    nlohmann::json array = nlohmann::json::array();
    for (const auto& item : value) array.push_back(record_to_json(item));
    return array;
  } else if constexpr (std::floating_point<T>) {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
  } else if constexpr (std::integral<T> || std::same_as<T, std::string>) {
    return value;
  } else if constexpr (requires { value.name(); }) {
    return value.name();
  } else {
    nlohmann::json object = nlohmann::json::object();
    T::visit(value,
             [&](const char* name, const auto& field) { object[name] = record_to_json(field); });
    return object;
  }
}

// `path` names the value in messages: "points[3].time.measured".
struct RecordPlace {
  std::string_view where;
  std::string path;

  RecordPlace in(std::string_view name) const {
    return {where, path.empty() ? std::string(name) : fmt::format("{}.{}", path, name)};
  }
  RecordPlace at(std::size_t index) const { return {where, fmt::format("{}[{}]", path, index)}; }
  void expect(bool right, const nlohmann::json& value, std::string_view need) const {
    if (right) return;
    std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 37) + "...";
    throw Error(fmt::format("{}: '{}' is {}; need {}", where, path, text, need));
  }
};

template <class T>
void read_record(const RecordPlace& place, const nlohmann::json& value, T& field) {
  if constexpr (detail::IsOptional<T>::value) {
    if (value.is_null()) return field.reset();
    read_record(place, value, field.emplace());
  } else if constexpr (detail::IsVector<T>::value) {
    place.expect(value.is_array(), value, "a list");
    field.resize(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) read_record(place.at(i), value[i], field[i]);
  } else if constexpr (std::same_as<T, bool>) {
    place.expect(value.is_boolean(), value, "true or false");
    field = value.get<bool>();
  } else if constexpr (std::integral<T>) {
    const bool counts =
        value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
    place.expect(counts, value, "a whole number from 0");
    field = value.get<T>();
  } else if constexpr (std::floating_point<T>) {
    place.expect(value.is_number() && std::isfinite(value.get<double>()), value, "a number");
    field = value.get<T>();
  } else if constexpr (std::same_as<T, std::string>) {
    place.expect(value.is_string(), value, "text");
    field = value.get<std::string>();
  } else if constexpr (requires { field.name(); }) {
    place.expect(value.is_string(), value, "text");
    const auto found = T::find(value.get_ref<const std::string&>());
    place.expect(found.has_value(), value, T::list());
    field = *found;
  } else {
    place.expect(value.is_object(), value, "an object");
    T::visit(field, [&](const char* name, auto& part) {
      if (const auto it = value.find(name); it != value.end())
        read_record(place.in(name), *it, part);
    });
  }
}

}  // namespace longspan
