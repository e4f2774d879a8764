#include "longspan/training/writer.h"

#include <algorithm>
#include <utility>

#include "longspan/base/error.h"
#include "longspan/base/memory.h"

namespace longspan {

namespace {
constexpr std::size_t kPromptChunk = 512;
}  // namespace

Writer::Writer(Model& model, std::vector<std::int32_t> prompt, std::int32_t boundary,
               std::size_t texts)
    : model_(model),
      max_length_(model.config().max_length),
      answers_(model.config().family == Family::kEncoderDecoder),
      decodes_(model.decodes()),
      alike_(texts > 1) {
  require(answers_ || model.config().family == Family::kDecoder,
          "[generate] the model is an {}; need a decoder", model.config().family);
  require(texts > 0, "[generate] 0 texts side by side; need at least 1");
  if (answers_) {
    require(boundary >= 0, "[generate] the task says nothing of how an answer begins");
    source_length_ = prompt.size();
    for (std::size_t i = 0; i < texts; ++i) {
      sources_.insert(sources_.end(), prompt.begin(), prompt.end());
    }
    prompt = {boundary};
  }
  begin_ = fresh_ = prompt.size();
  texts_.assign(texts, prompt);
  if (!decodes_) return;
  const auto bytes = [&](std::size_t rows) {
    return model.cache_bytes(rows, max_length_, source_length_);
  };
  const std::size_t all = bytes(texts) + (alike_ ? bytes(1) : 0);
  require_memory("generate", "the caches of what is written", all);
  memory_ = Arena(all);
  caches_ = model.make_caches(texts, max_length_, memory_, source_length_);
  if (alike_) first_ = model.make_caches(1, max_length_, memory_, source_length_);
}

Batch Writer::tokens_before(std::size_t rest, std::size_t count, std::size_t texts) {
  tokens_.clear();
  for (std::size_t i = 0; i < texts; ++i) {
    const auto tail = std::span(texts_[i]).last(rest + count).first(count);
    tokens_.insert(tokens_.end(), tail.begin(), tail.end());
  }
  Batch batch{.batch = texts, .length = count, .tokens = tokens_};
  if (answers_) {
    batch.source = std::span(sources_).first(texts * source_length_);
    batch.source_length = source_length_;
  }
  return batch;
}

ConstMatrix Writer::decoded(std::vector<DecodeCache>& caches, std::size_t texts) {
  std::size_t fresh = std::exchange(fresh_, 0);
  if (caches.front().used + fresh > max_length_) {
    for (DecodeCache& c : caches) c.clear();
    fresh = std::min(texts_.front().size(), std::max<std::size_t>(1, max_length_ / 2));
  }
  ConstMatrix scores;
  do {  // the memory of a step does not grow with the prompt
    const std::size_t chunk = std::min(fresh, kPromptChunk);
    scores = model_.decode(tokens_before(fresh - chunk, chunk, texts), caches);
    fresh -= chunk;
  } while (fresh > 0);
  return scores;
}

ConstMatrix Writer::scores() {
  const std::size_t texts = texts_.size();
  if (!decodes_) {
    const std::size_t count = std::min(texts_.front().size(), max_length_);
    const ConstMatrix all = model_.logits(tokens_before(0, count, texts));
    return {all.row_data(count - 1), texts, all.cols, all.stride * count};
  }
  if (!std::exchange(alike_, false)) return decoded(caches_, texts);
  const ConstMatrix one = decoded(first_, 1);
  for (std::size_t i = 0; i < caches_.size(); ++i) caches_[i].take(first_[i]);
  return {one.data, texts, one.cols, 0};
}

void Writer::append(std::span<const std::int32_t> tokens) {
  require(tokens.size() == texts_.size(), "[generate] {} tokens for {} texts; need one each",
          tokens.size(), texts_.size());
  require(!alike_ || !decodes_, "[generate] a token before the first scores; need them first");
  for (std::size_t i = 0; i < tokens.size(); ++i) texts_[i].push_back(tokens[i]);
  ++fresh_;
}

void Writer::copy(std::size_t from, std::size_t to) {
  texts_[to] = texts_[from];
  if (!decodes_ || alike_) return;
  for (const DecodeCache& c : caches_) c.copy_sequence(from, to);
}

}  // namespace longspan
