// Batches of a text corpus through a model: what train and eval share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "longspan/models/model.h"
#include "longspan/tasks/text.h"

namespace longspan::cli {

// Memory for one batch of windows.
class WindowBuffer {
 public:
  WindowBuffer(std::size_t rows, std::size_t length);
  // The first `rows` windows, to be filled and to be computed with.
  TokenBatch fill_view(std::size_t rows);
  TokenBatch row_view(std::size_t row);
  Batch batch(std::size_t rows) const;

 private:
  std::size_t length_;
  std::vector<std::int32_t> inputs_;
  std::vector<std::int32_t> targets_;
};

struct TextQuality {
  std::size_t tokens = 0;
  std::size_t bytes = 0;
  double nats = 0.0;  // sum over the tokens
  std::size_t correct = 0;

  double loss() const;           // nats per token
  double accuracy() const;       // share of the tokens that were the likeliest
  double perplexity() const;     //
  double bits_per_byte() const;  //
};

enum class Split { kValidation, kAll };

// The mean over consecutive windows, at most `limit` of them (0: all).
TextQuality evaluate_text(Model& model, const TextCorpus& corpus, Split split, std::size_t length,
                          std::size_t batch, std::size_t limit);

// The same over all windows, each of which remembers up to `memory` tokens before it. The text is
// read as `batch` streams side by side, whose first windows remember nothing.
TextQuality evaluate_segments(Model& model, const TextCorpus& corpus, Split split,
                              std::size_t length, std::size_t batch, std::size_t memory);

}  // namespace longspan::cli
