#include "longspan/tasks/symbol_task.h"

#include "longspan/tasks/symbols.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

SymbolTask::SymbolTask(std::string_view name, const SymbolConfig& config) : config_(config) {
  check_numbers(name, config);
}

TaskOptions SymbolTask::options() const { return options_of(config_); }

std::size_t SymbolTask::examples(Split split) const {
  return split == Split::kTraining || split == Split::kValidation ? config_.held_out : 0;
}

Batch SymbolTask::training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                                 BatchMemory& memory) {
  const Batch batch = room(rows, memory);
  const RandomKey key = derive(derive(RandomKey{seed}, name()), step);
  for (std::size_t row = 0; row < rows; ++row) fill(key, row, row, memory);
  return batch;
}

Batch SymbolTask::batch(Split split, const Examples& which, BatchMemory& memory) {
  const Batch batch = room(which.count, memory);
  const RandomKey key = derive(derive(0, name()), name_of(split));
  for (std::size_t row = 0; row < which.count; ++row) {
    fill(key, which.first + row * which.stride, row, memory);
  }
  return batch;
}

std::string SymbolTask::decode(std::span<const std::int32_t> tokens) const {
  return write_symbols(tokens);
}

}  // namespace longspan
