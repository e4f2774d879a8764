// What tasks of drawn sequences (symbols.h) share: as many of them as anybody asks for, a function
// of seed and step in training and of their number where a model is judged.
#pragma once

#include "longspan/base/number.h"
#include "longspan/base/random.h"
#include "longspan/tasks/task.h"

namespace longspan {

struct SymbolConfig {
  std::size_t length = 0;
  std::size_t symbols = 0;
  std::size_t held_out = 200;

  bool operator==(const SymbolConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("length", length, "Tokens per sequence", from_to(1, 1e7));
    see("symbols", symbols, "Different symbols", from_to(1, 1e6));
    see("held_out", held_out, "Sequences that judge the model", from_to(1, 1e7));
  }
};

class SymbolTask : public Task {
 public:
  TaskOptions options() const override;
  // Of training, which has no end, as many as are held out.
  std::size_t examples(Split split) const override;
  bool endless() const override { return true; }
  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                       BatchMemory& memory) override;
  Batch batch(Split split, const Examples& which, BatchMemory& memory) override;
  std::string decode(std::span<const std::int32_t> tokens) const override;

 protected:
  SymbolTask(std::string_view name, const SymbolConfig& config);
  const SymbolConfig& config() const { return config_; }

 private:
  // A batch of `rows` sequences whose memory is to be filled.
  virtual Batch room(std::size_t rows, BatchMemory& memory) const = 0;
  // Sequence number `index` of the stream `key` as row `row` of it.
  virtual void fill(RandomKey key, std::uint64_t index, std::size_t row,
                    BatchMemory& memory) const = 0;

  SymbolConfig config_;
};

}  // namespace longspan
