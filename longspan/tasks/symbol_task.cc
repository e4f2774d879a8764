#include "longspan/tasks/symbol_task.h"

#include "longspan/tasks/symbols.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

SymbolTask::SymbolTask(std::string_view name, const SymbolConfig& config) : config_(config) {
  check_numbers(name, config);
}

TaskOptions SymbolTask::options() const { return options_of(config_); }

std::string SymbolTask::decode(std::span<const std::int32_t> tokens) const {
  return write_symbols(tokens);
}

}  // namespace longspan
