#include "longspan/training/writer.h"

#include <algorithm>
#include <utility>

#include "longspan/base/error.h"

namespace longspan {

namespace {

bool can_decode(Model& model) {
  if (model.config().family != "decoder") return false;
  for (std::size_t i = 0; i < model.config().layers; ++i) {
    if (!model.mechanism(i).abilities().decode) return false;
  }
  return true;
}

}  // namespace

Writer::Writer(Model& model, std::vector<std::int32_t> prompt, std::int32_t boundary)
    : model_(model),
      context_(model.config().max_length),
      answers_(model.config().family == "encoder-decoder"),
      decodes_(can_decode(model)) {
  require(answers_ || model.config().family == "decoder",
          "[generate] the model is an {}; need a decoder", model.config().family);
  if (answers_) {
    require(boundary >= 0, "[generate] the task says nothing of how an answer begins");
    source_ = std::move(prompt);
    tokens_ = {boundary};
  } else {
    tokens_ = std::move(prompt);
  }
  fresh_ = tokens_.size();
  if (!decodes_) return;
  memory_ = Arena(model.cache_bytes(1, context_));
  caches_ = model.make_caches(1, context_, memory_);
}

Batch Writer::whole() const {
  Batch batch{.batch = 1, .length = std::min(tokens_.size(), context_)};
  batch.tokens = std::span(tokens_).last(batch.length);
  if (answers_) {
    batch.source = source_;
    batch.source_length = source_.size();
  }
  return batch;
}

std::span<const float> Writer::scores() {
  if (!decodes_) {
    const Batch batch = whole();
    return model_.logits(batch).row(batch.length - 1);
  }
  std::size_t fresh = std::exchange(fresh_, 0);
  if (caches_.front().used + fresh > context_) {
    for (KeyValueCache& c : caches_) c.clear();
    fresh = std::min(tokens_.size(), std::max<std::size_t>(1, context_ / 2));
  }
  return model_
      .decode({.batch = 1, .length = fresh, .tokens = std::span(tokens_).last(fresh)}, caches_)
      .row(0);
}

void Writer::append(std::int32_t token) {
  tokens_.push_back(token);
  ++fresh_;
}

}  // namespace longspan
