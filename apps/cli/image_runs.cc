#include "image_runs.h"

#include <algorithm>
#include <numeric>

namespace longspan::cli {

ImageBuffer::ImageBuffer(const ModelConfig& config, std::size_t rows, std::size_t patch)
    : perceptron_(config.family == "mlp"),
      length_(perceptron_ ? 1 : config.max_length),
      patch_(patch),
      features_(perceptron_ ? rows * config.inputs : 0),
      tokens_(perceptron_ ? 0 : rows * length_),
      targets_(rows) {}

Batch ImageBuffer::fill(const ImageSet& set, std::span<const std::uint32_t> indices) {
  Batch batch{.batch = indices.size(), .length = length_};
  if (perceptron_) {
    const std::span<float> to = std::span(features_).first(indices.size() * set.image_size());
    ImageCorpus::features(set, indices, to);
    batch.features = to;
  } else {
    const std::span<std::int32_t> to = std::span(tokens_).first(indices.size() * length_);
    ImageCorpus::tokens(set, indices, patch_, to);
    batch.tokens = to;
  }
  const std::span<std::int32_t> labels = std::span(targets_).first(indices.size());
  ImageCorpus::labels(set, indices, labels);
  batch.targets = labels;
  return batch;
}

ImageQuality evaluate_images(Model& model, const ImageSet& set, std::size_t batch,
                             std::size_t patch) {
  ImageBuffer buffer(model.config(), batch, patch);
  std::vector<std::uint32_t> indices(batch);
  CrossEntropy sum;
  for (std::size_t first = 0; first < set.count; first += batch) {
    const std::size_t rows = std::min(batch, set.count - first);
    std::iota(indices.begin(), indices.end(), static_cast<std::uint32_t>(first));
    const CrossEntropy part = model.evaluate(buffer.fill(set, std::span(indices).first(rows)));
    sum.loss += part.loss;
    sum.correct += part.correct;
  }
  const auto count = static_cast<double>(set.count);
  return {set.count, sum.loss / count, static_cast<double>(sum.correct) / count};
}

}  // namespace longspan::cli
