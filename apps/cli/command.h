// What the commands share: how they are added to the command line, and the options of all of them.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "longspan/base/choice.h"
#include "longspan/base/number.h"

namespace longspan::cli {

// Set by the options that every command has.
struct Common {
  int threads = 0;  // 0: all cores
  bool json = false;
  bool quiet = false;
};

// Each declares one subcommand with its options and what it runs.
void add_list(CLI::App& app, const Common& common);
void add_train(CLI::App& app, const Common& common);
void add_eval(CLI::App& app, const Common& common);
void add_generate(CLI::App& app, const Common& common);
void add_compare(CLI::App& app, const Common& common);
void add_advise(CLI::App& app, const Common& common);
// Hidden: what compare starts.
void add_compare_worker(CLI::App& app);
void add_calibrate(CLI::App& app, const Common& common);
void add_plan(CLI::App& app, const Common& common);
void add_cost(CLI::App& app, const Common& common);
void add_pattern(CLI::App& app, const Common& common);
void add_version(CLI::App& app, const Common& common);
// `longspan help [COMMAND]`, of the commands that `app` has.
void add_help(CLI::App& app, const Common& common);

// "longspan 0.1.0 (AVX2, 2 threads)"
void print_version(const Common& common);

// What the dimensions of a model may be wherever one is described.
inline constexpr Bounds kLayers = from_to(1, 4096);
inline constexpr Bounds kSomeLayers = from_to(0, 4096);
inline constexpr Bounds kHeads = from_to(1, 65536);
inline constexpr Bounds kSomeHeads = from_to(0, 65536);
inline constexpr Bounds kWidth = from_to(1, 1e6);
inline constexpr Bounds kSomeWidth = from_to(0, 1e7);
inline constexpr Bounds kSequences = from_to(1, 1e6);

// An option that `read` takes from its text; `bounds` stand behind what it is for.
CLI::Option* add_read(CLI::App& command, const std::string& name, const std::string& text,
                      const std::string& bounds, const std::string& group,
                      const std::function<void(const std::string&)>& read);

namespace detail {
template <class T>
struct NumberOf {
  using Type = T;
};
template <class T>
struct NumberOf<std::optional<T>> {
  using Type = T;
};
}  // namespace detail

// The name that sentences have of an option: "--utilisation" of "--utilisation,--utilization".
std::string first_name(const std::string& names);

// Every number comes from here. `value` is a number, or an optional one.
template <class Field>
CLI::Option* add_number(CLI::App& command, const std::string& name, Field& value,
                        const std::string& text, const Bounds& bounds,
                        const std::string& group = "Options") {
  using Number = typename detail::NumberOf<Field>::Type;
  CLI::Option* const option =
      add_read(command, name, text, ends_in_words(bounds), group,
               [&command, &value, bounds, key = first_name(name)](const std::string& written) {
                 value = read_number<Number>(command.get_name(), key, written, bounds);
               });
  if constexpr (std::same_as<Field, Number>) option->default_str(fmt::format("{}", value));
  return option;
}

// Seconds, from "90", "90s", "2m" or "1h".
CLI::Option* add_duration(CLI::App& command, const std::string& name, double& seconds,
                          const std::string& text, const std::string& group = "Options");

inline void add_text(CLI::App& command, const char* name, std::string& value, const char* text,
                     const std::string& group = "Options") {
  command.add_option(name, value, text)->group(group)->capture_default_str();
}

// `value` is a Choice, or an optional one; the names are listed behind `text`.
template <class Enum, class Field>
void add_choice_of(CLI::App& command, const char* name, Field& value, std::string text,
                   const std::string& group) {
  text += (text.empty() ? "" : ": ") + listed_names<Enum>();
  command
      .add_option_function<std::string>(
          name, [&value](const std::string& word) { value = Choice<Enum>(word); }, text)
      ->group(group);
}
template <class Enum>
void add_choice(CLI::App& command, const char* name, std::optional<Choice<Enum>>& value,
                const std::string& text, const std::string& group = "Options") {
  add_choice_of<Enum>(command, name, value, text, group);
}
template <class Enum>
void add_choice(CLI::App& command, const char* name, Choice<Enum>& value, const std::string& text,
                const std::string& group = "Options") {
  add_choice_of<Enum>(command, name, value, text, group);
  command.get_option(name)->default_str(std::string(value.name()));
}

// Throws Error, in one sentence, for the name of another branch of a block, which has no weights
// between queries and keys for `who` to look at.
void require_mechanism(std::string_view who, std::string_view specification);

// A path as a shell takes it: in quotes where it needs them.
std::string for_shell(const std::string& path);

// "1:02:03" or "2:03"
std::string human_seconds(double seconds);

}  // namespace longspan::cli
