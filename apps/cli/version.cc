// longspan version: what this build is and what it runs on.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "longspan/base/number.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/gemm/fma_peak.h"

namespace longspan::cli {

void print_version(const Common& common) {
  if (common.json) {
    const nlohmann::json result = {{"version", LONGSPAN_VERSION},
                                   {"instruction_set", instruction_set()},
                                   {"threads", thread_count()}};
    fmt::print("{}\n", result.dump(2));
    return;
  }
  fmt::print("longspan {} ({}, {})\n", LONGSPAN_VERSION, instruction_set(),
             counted(static_cast<std::uint64_t>(thread_count()), "thread"));
}

void add_version(CLI::App& app, const Common& common) {
  CLI::App* command = app.add_subcommand("version", "Version, instruction set and threads");
  command->callback([&common] { print_version(common); });
}

}  // namespace longspan::cli
