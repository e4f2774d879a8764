#include "longspan/tasks/drawn_task.h"

namespace longspan {

std::size_t DrawnTask::examples(Split split) const {
  return split == Split::kTraining || split == Split::kValidation ? held_out_examples() : 0;
}

Batch DrawnTask::training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                                BatchMemory& memory) {
  const Batch batch = room(rows, memory);
  const RandomKey key = derive(derive(RandomKey{seed}, name()), step);
  for (std::size_t row = 0; row < rows; ++row) fill(key, row, row, memory);
  return batch;
}

Batch DrawnTask::batch(Split split, const Examples& which, BatchMemory& memory) {
  const Batch batch = room(which.count, memory);
  const RandomKey key = derive(derive(0, name()), name_of(split));
  for (std::size_t row = 0; row < which.count; ++row) {
    fill(key, which.first + row * which.stride, row, memory);
  }
  return batch;
}

}  // namespace longspan
