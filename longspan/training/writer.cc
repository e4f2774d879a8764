#include "longspan/training/writer.h"

#include <algorithm>
#include <utility>

#include "longspan/base/error.h"

namespace longspan {

Writer::Writer(Model& model, std::vector<std::int32_t> prompt, std::int32_t boundary)
    : model_(model),
      max_length_(model.config().max_length),
      answers_(model.config().family == Family::kEncoderDecoder),
      decodes_(model.decodes()) {
  require(answers_ || model.config().family == Family::kDecoder,
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
  memory_ = Arena(model.cache_bytes(1, max_length_, source_.size()));
  caches_ = model.make_caches(1, max_length_, memory_, source_.size());
}

Batch Writer::last(std::size_t count) const {
  Batch batch{.batch = 1, .length = count};
  batch.tokens = std::span(tokens_).last(count);
  if (answers_) {
    batch.source = source_;
    batch.source_length = source_.size();
  }
  return batch;
}

std::span<const float> Writer::scores() {
  if (!decodes_) {
    const std::size_t count = std::min(tokens_.size(), max_length_);
    return model_.logits(last(count)).row(count - 1);
  }
  std::size_t fresh = std::exchange(fresh_, 0);
  if (caches_.front().used + fresh > max_length_) {
    for (DecodeCache& c : caches_) c.clear();
    fresh = std::min(tokens_.size(), std::max<std::size_t>(1, max_length_ / 2));
  }
  return model_.decode(last(fresh), caches_).row(0);
}

void Writer::append(std::int32_t token) {
  tokens_.push_back(token);
  ++fresh_;
}

}  // namespace longspan
