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

TokenBatch WindowBuffer::row_view(std::size_t row) {
  return {length_, std::span(inputs_).subspan(row * length_, length_),
          std::span(targets_).subspan(row * length_, length_)};
}

double TextQuality::loss() const { return nats / static_cast<double>(tokens); }
double TextQuality::accuracy() const {
  return static_cast<double>(correct) / static_cast<double>(std::max<std::size_t>(1, tokens));
}
double TextQuality::perplexity() const { return std::exp(loss()); }
double TextQuality::bits_per_byte() const {
  return nats / std::numbers::ln2 / static_cast<double>(bytes);
}

namespace {

// Window number `first` and those behind it.
void fill(const TextCorpus& corpus, Split split, std::size_t first, const TokenBatch& to) {
  if (split == Split::kAll) {
    corpus.batch(first, to);
  } else {
    corpus.validation_batch(first, to);
  }
}

std::size_t windows_of(const TextCorpus& corpus, Split split, std::size_t length) {
  return split == Split::kAll ? corpus.windows(length) : corpus.validation_windows(length);
}

void add(const TextCorpus& corpus, const Batch& batch, const CrossEntropy& result,
         TextQuality& quality) {
  quality.nats += result.loss;
  quality.tokens += result.counted;
  quality.correct += result.correct;
  quality.bytes += corpus.vocabulary().count_bytes(batch.targets);
}

}  // namespace

TextQuality evaluate_text(Model& model, const TextCorpus& corpus, Split split, std::size_t length,
                          std::size_t batch, std::size_t limit) {
  std::size_t windows = windows_of(corpus, split, length);
  if (limit > 0) windows = std::min(windows, limit);
  WindowBuffer buffer(batch, length);
  TextQuality quality;
  for (std::size_t first = 0; first < windows; first += batch) {
    const std::size_t rows = std::min(batch, windows - first);
    fill(corpus, split, first, buffer.fill_view(rows));
    add(corpus, buffer.batch(rows), model.evaluate(buffer.batch(rows)), quality);
  }
  return quality;
}

TextQuality evaluate_segments(Model& model, const TextCorpus& corpus, Split split,
                              std::size_t length, std::size_t batch, std::size_t memory) {
  const std::size_t windows = windows_of(corpus, split, length);
  const std::size_t streams = std::min(batch, windows);
  const std::size_t steps = windows / streams;
  std::vector<History> histories = model.make_histories(streams, memory);
  WindowBuffer buffer(streams, length);
  TextQuality quality;
  for (std::size_t step = 0; step < steps; ++step) {
    for (std::size_t s = 0; s < streams; ++s) {
      fill(corpus, split, s * steps + step, buffer.row_view(s));
    }
    Batch segment = buffer.batch(streams);
    segment.histories = histories;
    add(corpus, segment, model.evaluate(segment), quality);
    for (History& h : histories) h.advance();
  }
  return quality;
}

}  // namespace longspan::cli
