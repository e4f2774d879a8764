#include "tests/fuzz/use_model.h"

#include <algorithm>

#include "longspan/learning/trainer.h"
#include "longspan/models/model.h"
#include "longspan/testing/reference_cases.h"

namespace longspan::fuzz {

namespace {

constexpr std::size_t kMostWeights = std::size_t{1} << 16U;
constexpr std::size_t kMostBytes = std::size_t{16} << 20U;  // of a step
constexpr std::uint64_t kMostFlops = 20'000'000;            // likewise
constexpr std::size_t kMostLayers = 8;
constexpr std::size_t kLongest = 12;

bool small(const Model& model, const Batch& shape) {
  const ModelConfig& c = model.config();
  if (std::max(c.layers, c.decoder_layers) > kMostLayers) return false;
  if (model.parameters().count() > kMostWeights) return false;
  if (model.training_bytes(shape) > kMostBytes) return false;
  Cost all;
  for (const auto& [layer, cost] : model.cost(shape, /*training=*/true)) all += cost;
  return (all.forward + all.backward + all.update).flops() <= kMostFlops;
}

}  // namespace

void use_model(const ModelConfig& config) {
  check(config);
  Model model(config);
  testing::BatchShape shape{.batch = 2, .length = std::min(config.max_length, kLongest)};
  if (config.family == Family::kEncoderDecoder) shape.source_length = shape.length;
  const Batch sizes = {
      .batch = shape.batch, .length = shape.length, .source_length = shape.source_length};
  if (!small(model, sizes)) return;
  const testing::BatchData data(config, shape, 1);
  const Batch batch = data.view();
  model.allocate(1);
  model.evaluate(batch);
  Trainer(model, {}).step({&batch, 1});
}

}  // namespace longspan::fuzz
