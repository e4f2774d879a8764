// Between a task's config and its options by name.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "longspan/base/config.h"
#include "longspan/tasks/task.h"

namespace longspan {

struct TaskOption {
  std::string name;
  std::string standard;  // its value unless given
  std::string purpose;
  bool is_text = false;   // else a number
  bool is_whole = false;  // of a number
  Bounds bounds = {};     // of a number
};

template <class Config>
std::vector<TaskOption> describe_options() {
  std::vector<TaskOption> all;
  Config config;
  config.visit(
      [&](std::string_view name, auto& field, std::string_view purpose, const auto&... more) {
        using Field = std::remove_cvref_t<decltype(field)>;
        TaskOption option{std::string(name), fmt::format("{}", field), std::string(purpose)};
        option.is_text = !detail::kIsNumber<Field>;
        option.is_whole = std::is_integral_v<Field>;
        if constexpr (detail::kIsNumber<Field>) option.bounds = bounds_among<Field>(more...);
        all.push_back(std::move(option));
      });
  return all;
}

template <class Config>
TaskOptions options_of(Config config) {
  TaskOptions options;
  config.visit([&](std::string_view name, auto& field, const auto&... /*what for*/) {
    options.emplace(name, fmt::format("{}", field));
  });
  return options;
}

template <class Config>
Config config_from(std::string_view who, const TaskOptions& options) {
  Config config;
  for (const auto& [name, text] : options) set_option(who, name, text, config);
  return config;
}

}  // namespace longspan
