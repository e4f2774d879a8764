#include "longspan/predict/model_run.h"

#include "longspan/base/random.h"

namespace longspan {

namespace {

std::vector<std::int32_t> random_tokens(std::size_t count, std::size_t vocab,
                                        std::string_view name) {
  std::vector<std::int32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<std::int32_t>(random_below(derive(1, name), i, vocab));
  }
  return tokens;
}

}  // namespace

ModelRun::ModelRun(const ModelConfig& config, const RunShape& shape, Purpose purpose)
    : model_(config),
      tokens_(random_tokens(shape.batch * shape.length, config.vocab, "tokens")),
      targets_(random_tokens(config.output_rows(shape.batch, shape.length), config.outputs(),
                             "targets")),
      source_(random_tokens(shape.batch * shape.source_length, config.vocab, "source")) {
  model_.allocate(1, purpose);
  if (purpose == Purpose::kInference) model_.pack();
  train_.schedule.kind = "constant";
  train_.schedule.warmup = 0;
  batch_ = {.batch = shape.batch,
            .length = shape.length,
            .tokens = tokens_,
            .targets = targets_,
            .source_length = shape.source_length,
            .source = source_};
}

void ModelRun::gradients() {
  const float scale = 1.0F / static_cast<float>(targets_.size());
  model_.forward(batch_, 1, scale);
  model_.backward(batch_, scale);
}

void ModelRun::step() {
  if (trainer_ == nullptr) trainer_ = std::make_unique<Trainer>(model_, train_);
  trainer_->step({&batch_, 1});
}

}  // namespace longspan
