// What is wrong with a command line, in one sentence.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace longspan::cli {

// --json=maybe is no way to say --json.
void refuse_values_of_flags(CLI::App& command);

// Throws Error for what CLI11 found: a command or option that is unknown, missing or given twice.
[[noreturn]] void explain(const CLI::ParseError& error, const CLI::App& app);

// Fit for a terminal, on one line: control characters that input brought along are shown as \x1b,
// and of what is endless the middle is left out.
std::string visible(std::string_view sentence);

}  // namespace longspan::cli
