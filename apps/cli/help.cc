// longspan help: what `longspan COMMAND --help` says.
#include <fmt/core.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "command.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

void print_fitted(const std::string& text) {
  fmt::print("{}", fitted(shown(text), terminal_width(STDOUT_FILENO)));
}

void print_help(const CLI::App& app, const std::string& name) {
  // CLI11 would go on to the command that runs, which is this one.
  if (name.empty()) {
    return print_fitted(
        app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal));
  }
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    if (command->get_name() == name) return print_fitted(command->help(app.get_name()));
    names.push_back(command->get_name());
  }
  throw_unknown("help", "command", name, {names.begin(), names.end()});
}

}  // namespace

void add_help(CLI::App& app, const Common& common) {
  CLI::App* command = app.add_subcommand("help", "What a command does and which options it has");
  const auto name = std::make_shared<std::string>();
  command->add_option("command", *name, "One of the commands; all of them unless given");
  command->callback([&app, &common, name] {
    require(!common.json, "[help] --json with help, which is text; need longspan list --json");
    print_help(app, *name);
  });
}

}  // namespace longspan::cli
