// Configs (structs with a visit(), see base/config.h) as JSON objects, both ways.
#pragma once

#include <algorithm>
#include <concepts>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "longspan/base/config.h"
#include "longspan/base/error.h"

namespace longspan {

template <class Config>
nlohmann::json config_to_json(Config config) {
  nlohmann::json object = nlohmann::json::object();
  config.visit([&](std::string_view name, auto& field, auto&&... /*what for*/) {
    if constexpr (requires { field.name(); }) {
      object[std::string(name)] = field.name();
    } else {
      object[std::string(name)] = field;
    }
  });
  return object;
}

// Fields that the object does not name keep their defaults; a name that no field has is an error.
template <class Config>
Config config_from_json(std::string_view who, const nlohmann::json& object) {
  Config config;
  require(object.is_object(), "[{}] the configuration is not a JSON object", who);
  std::vector<std::string_view> known;
  config.visit([&](std::string_view name, auto& field, const auto&... more) {
    known.push_back(name);
    const auto it = object.find(std::string(name));
    if (it == object.end()) return;
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::same_as<Field, bool>) {
      require(it->is_boolean(), "[{}] '{}' is {}; need true or false", who, name, it->dump());
    } else if constexpr (std::unsigned_integral<Field>) {
      require(it->is_number_unsigned(), "[{}] '{}' is {}; need a whole number from 0", who, name,
              it->dump());
    } else if constexpr (std::integral<Field>) {
      require(it->is_number_integer(), "[{}] '{}' is {}; need a whole number", who, name,
              it->dump());
    } else if constexpr (std::floating_point<Field>) {
      require(it->is_number(), "[{}] '{}' is {}; need a number", who, name, it->dump());
    } else {
      require(it->is_string(), "[{}] '{}' is {}; need text", who, name, it->dump());
    }
    if constexpr (requires { Field::from(who, name); }) {
      field = Field::from(who, it->template get_ref<const std::string&>());
    } else {
      field = it->template get<Field>();
      if constexpr (detail::kIsNumber<Field>) {
        require_within(who, name, field, bounds_among<Field>(more...));
      }
    }
  });
  for (const auto& item : object.items()) {
    if (std::ranges::find(known, item.key()) == known.end()) {
      throw_unknown(who, "field", item.key(), known);
    }
  }
  return config;
}

}  // namespace longspan
