// What the commands share: how they are added to the command line, and the options of all of them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

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
void add_version(CLI::App& app, const Common& common);

// "1:02:03" or "2:03"
std::string human_seconds(double seconds);

}  // namespace longspan::cli
