// Steps without memory or arithmetic, and the booking of those with.
#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/base/meter.h"
#include "longspan/base/sizes.h"
#include "longspan/models/model.h"

namespace longspan {

Batch Model::without_data(const Batch& shape) const {
  check_rows(shape);
  Batch batch = shape;
  if (batch.tokens.empty()) batch.tokens = Dry::memory<const std::int32_t>(shape.rows());
  const std::size_t length = has_decoder() ? shape.source_length : shape.length;
  const std::size_t each =
      stem() != nullptr && length > 0 ? stem()->features(length) : config_.inputs;
  if (batch.features.empty()) {
    require(size_product(shape.batch, each) <= ModelLimits::kLength,
            "[model] {} sequences of {} features; need at most {} in all", shape.batch, each,
            ModelLimits::kLength);
    batch.features = Dry::memory<const float>(shape.batch * each);
  }
  if (batch.source.empty()) {
    batch.source = Dry::memory<const std::int32_t>(shape.source_rows());
  }
  return batch;
}

StepMemory Model::walk_training(const Batch& shape, std::span<History> histories,
                                Step& step) const {
  const Dry dry;
  const Batch batch = without_data(shape);
  step.arena = Arena::dry();
  step.tape.histories = histories;
  run_forward(batch, 0, 1.0F, step);
  const std::size_t kept = step.arena.used();
  run_backward(batch, 1.0F, step);
  return StepMemory::of(step.arena, kept);
}

std::size_t Model::walk_inference(const Batch& shape, std::span<History> histories,
                                  Step& step) const {
  const Dry dry;
  const Batch batch = without_data(shape);
  step.arena = Arena::dry();
  measure(run_outputs(batch, histories, step), batch);
  return step.arena.peak();
}

std::size_t Model::walk_outputs(const Batch& shape) const {
  const Dry dry;
  Step step;
  step.arena = Arena::dry();
  run_outputs(without_data(shape), {}, step);
  return step.arena.peak();
}

std::size_t Model::walk_decode(const Batch& shape, std::size_t used, std::size_t capacity,
                               Step& step) const {
  check_rows({.batch = shape.batch, .length = capacity, .source_length = shape.source_length});
  const Dry dry;
  Arena apart = Arena::dry();
  {
    const Listener::Mute mute;
    decoder_->lay_out_caches(shape.batch, capacity, shape.source_length, apart, step.caches);
  }
  for (DecodeCache& c : step.caches) c.used = used;
  step.arena = Arena::dry();
  run_decode(without_data(shape), step.caches, step);
  return step.arena.peak();
}

StepMemory Model::walk_training(const Batch& shape, std::span<History> histories) const {
  Step step;
  return walk_training(shape, histories, step);
}

std::size_t Model::walk_inference(const Batch& shape, std::span<History> histories) const {
  Step step;
  return walk_inference(shape, histories, step);
}

std::size_t Model::walk_decode(const Batch& shape, std::size_t used, std::size_t capacity) const {
  Step step;
  return walk_decode(shape, used, capacity, step);
}

ModelCost Model::cost_by_part(const Batch& batch, bool training,
                              std::span<History> histories) const {
  Meter meter;
  {
    const Meter::Use use(meter);
    if (training) {
      walk_training(batch, histories);
    } else {
      walk_inference(batch, histories);
    }
  }
  ModelCost cost;
  for (const auto& [key, work] : meter.entries()) {
    if (work.flops() == 0) continue;
    CostTable& table = key.part == ModelPart::kEncoder   ? cost.encoder
                       : key.part == ModelPart::kDecoder ? cost.decoder
                                                         : cost.head;
    table[key.layer].of(key.phase) += work;
  }
  return cost;
}

CostTable ModelCost::whole() const {
  CostTable table = encoder;
  for (const CostTable& part : {decoder, head}) {
    for (const auto& [layer, cost] : part) table[layer] += cost;
  }
  return table;
}

void Model::prepare_training(const Batch& shape, std::span<History> histories) {
  check_shape(shape, histories);
  book(StepKind{.name = "training"}, shape, past(histories),
       [&] { return walk_training(shape, histories, dry_step_).peak; });
}

void Model::take_memory(const Batch& batch, bool training, std::size_t bytes) {
  if (step_.arena.capacity() >= bytes) return;
  if (has_encoder()) encoder_->check(encoder_pass(batch, 0, training));
  if (has_decoder()) decoder_->check(decoder_pass(batch, 0, training));
  step_.arena = Arena{};  // the old block first, so that the two never coexist
  require(bytes <= available_memory(),
          "[model] a step of {} × {} tokens needs {} of activations; {} are "
          "available: use a shorter length, a smaller batch, flash attention or reversible wiring",
          batch.batch, batch.length, format_bytes(bytes), format_bytes(available_memory()));
  step_.arena = Arena(bytes);
}

}  // namespace longspan
