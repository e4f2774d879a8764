// What tasks share whose sequences are drawn: as many of them as anybody asks for, a function of
// seed and step in training and of their number where a model is judged.
#pragma once

#include "longspan/base/random.h"
#include "longspan/tasks/task.h"

namespace longspan {

class DrawnTask : public Task {
 public:
  // Of training, which has no end, as many as are held out.
  std::size_t examples(Split split) const override;
  bool endless() const override { return true; }
  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                       BatchMemory& memory) override;
  Batch batch(Split split, const Examples& which, BatchMemory& memory) override;

 private:
  virtual std::size_t held_out_examples() const = 0;
  // A batch of `rows` sequences whose memory is to be filled.
  virtual Batch room(std::size_t rows, BatchMemory& memory) const = 0;
  // Sequence number `index` of the stream `key` as row `row` of it.
  virtual void fill(RandomKey key, std::uint64_t index, std::size_t row,
                    BatchMemory& memory) const = 0;
};

}  // namespace longspan
