// Training on labelled images: a perceptron on their pixels, or a transformer on their patches.
#include <fmt/core.h>

#include <vector>

#include "image_runs.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "training_run.h"

namespace longspan::cli {

namespace {

class ImageTraining final : public TrainingRun {
 public:
  ImageTraining(const TrainOptions& options, const Common& common)
      : TrainingRun(options, common),
        corpus_(options.resume && options.run.data.data.empty() ? resumed().data.data
                                                                : options.run.data.data) {
    const RunConfig config = options.resume ? resumed() : configure();
    for (std::size_t i = 0; i < config.data.accumulate; ++i) {
      buffers_.emplace_back(config.model, config.data.batch, config.data.patch);
    }
    batches_.resize(config.data.accumulate);
    indices_.resize(config.data.batch);
    build(config, {.batch = config.data.batch,
                   .length = config.model.family == "mlp" ? 1 : config.model.max_length});
  }

 private:
  RunConfig configure();
  std::string describe_data() const override {
    return fmt::format(
        "{} images of {}x{} in {} classes, {} to test; the most common class is {:.2f} %",
        corpus_.training().count, corpus_.training().height, corpus_.training().width,
        corpus_.classes(), corpus_.test().count, 100.0 * corpus_.majority());
  }
  std::span<const Batch> batches(std::uint64_t step) override {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      corpus_.training_indices(config_.train.seed, step * buffers_.size() + i, indices_);
      batches_[i] = buffers_[i].fill(corpus_.training(), indices_);
    }
    return batches_;
  }
  Judgement judge() override {
    const ImageQuality q =
        evaluate_images(*model_, corpus_.test(), config_.data.batch, config_.data.patch);
    return {{{"test_loss", q.loss}, {"test_accuracy", q.accuracy}},
            fmt::format("test loss {:.4f}, accuracy {:.2f} %", q.loss, 100.0 * q.accuracy)};
  }

  ImageCorpus corpus_;
  std::vector<ImageBuffer> buffers_;
  std::vector<std::uint32_t> indices_;
  std::vector<Batch> batches_;
};

RunConfig ImageTraining::configure() {
  const std::size_t per_step = options_.run.data.batch * options_.run.data.accumulate;
  require(per_step > 0, "[train] batches of no images; need at least 1");
  if (options_.epochs > 0) options_.steps = options_.epochs * corpus_.training().count / per_step;
  RunConfig config = fresh(options_.run);
  config.data.task = "images";
  ModelConfig& m = config.model;
  m.head = "classifier";
  m.classes = corpus_.classes();
  m.vocab = config.vocabulary.size();
  if (options_.model == "mlp") {
    m.family = "mlp";
    m.inputs = corpus_.training().image_size();
    m.d_model = options_.hidden;
    m.max_length = 1;
  } else if (options_.model == "encoder") {
    m.family = "encoder";
    m.max_length = ImageCorpus::patches(corpus_.training(), config.data.patch);
  } else {
    throw_unknown("train", "model for images", options_.model, {"mlp", "encoder"});
  }
  config.data.length = m.max_length;
  return config;
}

}  // namespace

void train_images(const TrainOptions& options, const Common& common) {
  ImageTraining(options, common).run();
}

}  // namespace longspan::cli
