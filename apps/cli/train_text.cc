// Training on a text file.
#include <fmt/core.h>

#include <optional>
#include <span>
#include <vector>

#include "longspan/base/error.h"
#include "longspan/io/checksum.h"
#include "longspan/io/file.h"
#include "text_runs.h"
#include "training_run.h"

namespace longspan::cli {

namespace {

std::string file_checksum(const std::string& path) {
  Checksum checksum;
  const std::string text = read_file("train", path);
  checksum.add(std::as_bytes(std::span(text)));
  return checksum.hex();
}

class TextTraining final : public TrainingRun {
 public:
  TextTraining(const TrainOptions& options, const Common& common);

 private:
  RunConfig configure();
  std::string describe_data() const override {
    return fmt::format("{} tokens of {} kinds", corpus_->size(), config_.model.vocab);
  }
  std::span<const Batch> batches(std::uint64_t step) override;
  Judgement judge() override;

  std::optional<TextCorpus> corpus_;
  std::vector<WindowBuffer> buffers_;
  std::vector<Batch> batches_;
};

TextTraining::TextTraining(const TrainOptions& options, const Common& common)
    : TrainingRun(options, common) {
  const RunConfig config = configure();
  corpus_->require_length(config.data.length);
  build(config, {.batch = config.data.batch, .length = config.data.length});
  for (std::size_t i = 0; i < config.data.accumulate; ++i) {
    buffers_.emplace_back(config.data.batch, config.data.length);
  }
  batches_.resize(config.data.accumulate);
}

RunConfig TextTraining::configure() {
  if (options_.resume) {
    RunConfig config = resumed();
    require(file_checksum(config.data.data) == config.data.checksum,
            "[train] {} is not the file that {} was trained on; need the same data to resume",
            config.data.data, options_.out);
    corpus_.emplace(config.data.data, config.vocabulary);
    return config;
  }
  RunConfig config = fresh(options_.run);
  corpus_.emplace(config.data.data, options_.vocabulary);
  config.data.checksum = file_checksum(config.data.data);
  config.vocabulary = corpus_->vocabulary();
  config.model.vocab = config.vocabulary.size();
  config.model.max_length = config.data.length;
  return config;
}

std::span<const Batch> TextTraining::batches(std::uint64_t step) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    corpus_->training_batch(config_.train.seed, step * buffers_.size() + i,
                            buffers_[i].fill_view(config_.data.batch));
    batches_[i] = buffers_[i].batch(config_.data.batch);
  }
  return batches_;
}

TrainingRun::Judgement TextTraining::judge() {
  const TextQuality q = evaluate_text(*model_, *corpus_, Split::kValidation, config_.data.length,
                                      config_.data.batch, options_.eval_windows);
  return {{{"validation_loss", q.loss()}},
          fmt::format("validation loss {:.4f}, perplexity {:.2f}", q.loss(), q.perplexity())};
}

}  // namespace

void train_text(const TrainOptions& options, const Common& common) {
  TextTraining(options, common).run();
}

}  // namespace longspan::cli
