#include "longspan/models/two_towers.h"

#include "longspan/base/error.h"
#include "longspan/base/meter.h"
#include "longspan/layers/weighted_sum.h"

namespace longspan {

namespace {

std::unique_ptr<Model> make_tower(ModelConfig config) {
  config.loss = WeightedSum::kName;
  auto model = std::make_unique<Model>(config);
  require(config.pools() && config.head != HeadKind::kPairs,
          "[two towers] a {} head; need one output of each sequence", config.head);
  return model;
}

}  // namespace

TwoTowers::TwoTowers(const TwoTowersConfig& config)
    : text_(make_tower(config.text)),
      image_(make_tower(config.image)),
      width_(config.text.outputs()),
      matching_(parameters_, "matching", config.log_scale) {
  require(width_ == config.image.outputs(),
          "[two towers] texts of {} numbers and images of {}; need equal widths", width_,
          config.image.outputs());
}

void TwoTowers::allocate(RandomKey seed, Purpose purpose) {
  text_->allocate(derive(seed, "text"), purpose);
  image_->allocate(derive(seed, "image"), purpose);
  parameters_.allocate(purpose);
  matching_.initialize();
}

Batch TwoTowers::with_signal(const Batch& batch, std::vector<float>& signal) const {
  signal.assign(batch.batch * width_, 0.0F);
  Batch given = batch;
  given.targets = {};
  given.values = signal;
  return given;
}

Matching::Saved TwoTowers::compare(ConstMatrix text, ConstMatrix image) {
  require(text.rows == image.rows, "[two towers] {} texts and {} images; need pairs", text.rows,
          image.rows);
  if (pairs_ < text.rows) {
    const Dry dry;
    const Listener::Mute mute;
    Arena apart = Arena::dry();
    matching_.compare(text, image, apart);
    arena_ = Arena(apart.peak());
    pairs_ = text.rows;
  }
  arena_.clear();
  return matching_.compare(text, image, arena_);
}

TwoTowers::Outputs TwoTowers::outputs(const Batch& texts, const Batch& images) {
  ready_ = false;
  const Matching::Saved saved = compare(text_->logits(texts), image_->logits(images));
  return {saved.a, saved.b, saved.a_to_b};
}

LossSum TwoTowers::evaluate(const Batch& texts, const Batch& images) {
  ready_ = false;
  return matching_.measure(compare(text_->logits(texts), image_->logits(images)));
}

LossSum TwoTowers::forward(const Batch& texts, const Batch& images, RandomKey key, float scale) {
  text_->forward(with_signal(texts, text_signal_), derive(key, "text"), 1.0F);
  image_->forward(with_signal(images, image_signal_), derive(key, "image"), 1.0F);
  saved_ = compare(text_->scores(), image_->scores());
  ready_ = true;
  return matching_.predict(saved_, scale);
}

void TwoTowers::backward(const Batch& texts, const Batch& images) {
  require(ready_ && saved_.a.rows == texts.batch && texts.batch == images.batch,
          "[two towers] backward without a forward; need forward on the same batches just before");
  ready_ = false;
  const Batch text = with_signal(texts, text_signal_);
  const Batch image = with_signal(images, image_signal_);
  matching_.backward(saved_, matrix(text_signal_, texts.batch),
                     matrix(image_signal_, images.batch));
  text_->backward(text, 1.0F);
  image_->backward(image, 1.0F);
}

void TwoTowers::run_dry(std::size_t pairs, bool training) const {
  const Dry dry;
  Arena arena = Arena::dry();
  const Matrix text = arena.matrix(pairs, width_);
  const Matrix image = arena.matrix(pairs, width_);
  const Matching::Saved saved = matching_.compare(text, image, arena);
  if (!training) {
    matching_.measure(saved);
    return;
  }
  matching_.predict(saved, 1.0F);
  matching_.backward(saved, text, image);
}

CostTable TwoTowers::cost(const Batch& texts, const Batch& images, bool training) const {
  Meter meter;
  {
    const Meter::Use use(meter);
    run_dry(texts.batch, training);
    if (training) {
      text_->walk_training(texts);
      image_->walk_training(images);
    } else {
      text_->walk_outputs(texts);
      image_->walk_outputs(images);
    }
  }
  return cost_of(meter);
}

}  // namespace longspan
