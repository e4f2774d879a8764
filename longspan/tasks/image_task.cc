#include "longspan/tasks/image_task.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "longspan/base/config.h"
#include "longspan/io/checksum.h"
#include "longspan/tasks/task_options.h"

namespace longspan {

namespace {

// Levels of grey are tokens of a table that has room for all bytes.
constexpr std::size_t kVocabulary = 256;

}  // namespace

TaskOptions ImageTask::options() const { return options_of(config_); }

std::string_view ImageTask::idle(std::string_view option) const {
  const bool reads_pixels = config_.model == Family::kPerceptron;
  return option == "patch" && reads_pixels ? "the model mlp, which reads pixels; need encoder" : "";
}

void ImageTask::open() {
  corpus_.emplace(config_.data);
  const std::vector<std::int32_t>& labels = corpus_->training().labels;
  require(std::ranges::any_of(labels, [&](std::int32_t l) { return l != labels.front(); }),
          "[images] {}: all {} images are of class {}; need two classes", config_.data,
          labels.size(), labels.front());
  check_size(kName, trained_, size());
}

ImageSize ImageTask::size() const {
  if (!corpus_) return {};
  return {corpus_->training().height, corpus_->training().width};
}

std::string ImageTask::checksum() const {
  std::optional<ImageCorpus> read;
  const ImageCorpus& corpus = corpus_ ? *corpus_ : read.emplace(config_.data);
  Checksum checksum;
  for (const ImageSet* set : {&corpus.training(), &corpus.test()}) {
    const std::array<std::size_t, 3> shape = {set->count, set->height, set->width};
    checksum.add(std::as_bytes(std::span(shape)));
    checksum.add(std::as_bytes(std::span(set->pixels)));
    checksum.add(std::as_bytes(std::span(set->labels)));
  }
  return checksum.hex();
}

std::string ImageTask::describe() const {
  const ImageSet& training = corpus_->training();
  return fmt::format(
      "{} images of {}x{} in {} classes, {} to test; the most common class is {:.2f} %",
      training.count, training.height, training.width, corpus_->classes(), corpus_->test().count,
      100.0 * corpus_->majority());
}

ModelNeeds ImageTask::needs() const {
  ModelNeeds needs{.family = config_.model,
                   .head = HeadKind::kClassifier,
                   .vocabulary = kVocabulary,
                   .length = 1};
  if (!corpus_) return needs;
  needs.classes = corpus_->classes();
  if (config_.model == Family::kPerceptron) {
    needs.inputs = corpus_->training().image_size();
  } else {
    require(config_.model == Family::kEncoder, "[images] model is {}; need mlp or encoder",
            config_.model);
    needs.length = ImageCorpus::patches(corpus_->training(), config_.patch);
  }
  return needs;
}

std::size_t ImageTask::examples(Split split) const {
  switch (split) {
    case Split::kTraining:
      return corpus_->training().count;
    case Split::kTest:
      return corpus_->test().count;
    case Split::kValidation:
    case Split::kAll:
      return 0;
  }
  return 0;
}

Batch ImageTask::fill(const ImageSet& set, BatchMemory& memory) const {
  Batch batch{.batch = indices_.size(), .length = 1};
  if (config_.model == Family::kPerceptron) {
    memory.features.resize(indices_.size() * set.image_size());
    ImageCorpus::features(set, indices_, memory.features);
    batch.features = memory.features;
  } else {
    batch.length = ImageCorpus::patches(set, config_.patch);
    memory.tokens.resize(indices_.size() * batch.length);
    ImageCorpus::tokens(set, indices_, config_.patch, memory.tokens);
    batch.tokens = memory.tokens;
  }
  memory.targets.resize(indices_.size());
  ImageCorpus::labels(set, indices_, memory.targets);
  batch.targets = memory.targets;
  return batch;
}

Batch ImageTask::training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                                BatchMemory& memory) {
  indices_.resize(rows);
  corpus_->training_indices(seed, step, indices_);
  return fill(corpus_->training(), memory);
}

Batch ImageTask::batch(Split split, const Examples& which, BatchMemory& memory) {
  indices_.resize(which.count);
  for (std::size_t i = 0; i < which.count; ++i) {
    indices_[i] = static_cast<std::uint32_t>(which.first + i * which.stride);
  }
  return fill(split == Split::kTraining ? corpus_->training() : corpus_->test(), memory);
}

Judgement ImageTask::judge(Split split, const Tally& tally) const {
  const double majority = corpus_->majority();
  const std::string accuracy = fmt::format("{:.2f} %", 100.0 * tally.accuracy());
  return {
      .split = split,
      .counted = "images",
      .count = tally.counted,
      .metrics = {{"loss", tally.mean_loss(), fmt::format("{:.4f}", tally.mean_loss())},
                  {"accuracy", tally.accuracy(),
                   fmt::format("{} (the most common class: {:.2f} %)", accuracy, 100.0 * majority)},
                  {"majority", majority, ""}},
      .subject = fmt::format("{} {} images", tally.counted, name_of(split)),
      .line = fmt::format("loss {:.4f}, accuracy {}", tally.mean_loss(), accuracy)};
}

}  // namespace longspan
