// What the commands share: how they are added to the command line, and the options of all of them.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "longspan/base/choice.h"

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

// Numbers are checked here, because a negative count would wrap around on its way into an unsigned
// one.
inline CLI::Validator not_negative() {
  return {[](const std::string& input) {
            const bool fits = input.find('-') == std::string::npos;
            return fits ? std::string() : "need a whole number from 0, not " + input;
          },
          ""};
}

template <class T>
void add_number(CLI::App& command, const char* name, T& value, const char* text,
                const std::string& group = "Options") {
  CLI::Option* const option = command.add_option(name, value, text)->check(CLI::Number);
  if (!std::is_floating_point_v<T>) option->check(not_negative());
  option->group(group)->capture_default_str();
}

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
