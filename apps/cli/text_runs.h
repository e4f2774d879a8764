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
  double accuracy = 0.0;

  double loss() const;           // nats per token
  double perplexity() const;     //
  double bits_per_byte() const;  //
};

enum class Split { kValidation, kAll };

// The mean over consecutive windows, at most `limit` of them (0: all).
TextQuality evaluate_text(Model& model, const TextCorpus& corpus, Split split, std::size_t length,
                          std::size_t batch, std::size_t limit);

}  // namespace longspan::cli
