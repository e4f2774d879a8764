#include "text_runs.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

namespace longspan::cli {

WindowBuffer::WindowBuffer(std::size_t rows, std::size_t length)
    : length_(length), inputs_(rows * length), targets_(rows * length) {}

TokenBatch WindowBuffer::fill_view(std::size_t rows) {
  return {length_, std::span(inputs_).first(rows * length_),
          std::span(targets_).first(rows * length_)};
}

Batch WindowBuffer::batch(std::size_t rows) const {
  Batch batch;
  batch.batch = rows;
  batch.length = length_;
  batch.tokens = std::span(inputs_).first(rows * length_);
  batch.targets = std::span(targets_).first(rows * length_);
  return batch;
}

double TextQuality::loss() const { return nats / static_cast<double>(tokens); }
double TextQuality::perplexity() const { return std::exp(loss()); }
double TextQuality::bits_per_byte() const {
  return nats / std::numbers::ln2 / static_cast<double>(bytes);
}

TextQuality evaluate_text(Model& model, const TextCorpus& corpus, Split split, std::size_t length,
                          std::size_t batch, std::size_t limit) {
  std::size_t windows =
      split == Split::kAll ? corpus.windows(length) : corpus.validation_windows(length);
  if (limit > 0) windows = std::min(windows, limit);
  WindowBuffer buffer(batch, length);
  TextQuality quality;
  std::size_t correct = 0;
  for (std::size_t first = 0; first < windows; first += batch) {
    const std::size_t rows = std::min(batch, windows - first);
    if (split == Split::kAll) {
      corpus.batch(first, buffer.fill_view(rows));
    } else {
      corpus.validation_batch(first, buffer.fill_view(rows));
    }
    const CrossEntropy result = model.evaluate(buffer.batch(rows));
    quality.nats += result.loss;
    quality.tokens += result.counted;
    correct += result.correct;
    quality.bytes += corpus.vocabulary().count_bytes(buffer.batch(rows).targets);
  }
  quality.accuracy =
      static_cast<double>(correct) / static_cast<double>(std::max<std::size_t>(1, quality.tokens));
  return quality;
}

}  // namespace longspan::cli
