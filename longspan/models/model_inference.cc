// Passes that keep nothing: evaluation, and decoding with a cache.
#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/models/model.h"

namespace longspan {

Matrix Model::infer(const Batch& batch, std::span<History> histories,
                    std::span<KeyValueCache> caches, Arena& arena) const {
  Matrix x;
  Matrix memory;
  if (has_encoder()) {
    const Place::Part part("encoder");
    const Pass pass = encoder_pass(batch, 0, false, histories);
    x = encoder_embedding_->embed(pass, encoder_tokens(batch), nullptr, arena);
    memory = x = encoder_->infer(pass, x, {}, arena);
  }
  if (has_decoder()) {
    const Place::Part part("decoder");
    Pass pass = decoder_pass(batch, 0, false, histories);
    pass.memory = memory;
    TokenInput tokens = decoder_tokens(batch);
    if (!caches.empty()) tokens.first_position = caches.front().used;
    x = decoder_embedding_->embed(pass, tokens, nullptr, arena);
    x = decoder_->infer(pass, x, caches, arena);
  }
  if (mlp_) {
    const Place::Part part("encoder");
    x = mlp_->infer(decoder_pass(batch, 0, false), features(batch), arena);
  }
  return x;
}

ConstMatrix Model::run_logits(const Batch& batch, std::span<History> histories,
                              Arena& arena) const {
  const Matrix x = infer(batch, histories, {}, arena);
  const Place::Part part("head");
  return head_->forward(output_pass(batch), x, /*saves=*/false, arena).logits;
}

ConstMatrix Model::logits(const Batch& batch, std::span<History> histories) {
  check_batch(batch, histories, /*needs_targets=*/false);
  book("inference", batch, past(histories),
       [&] { return walk_inference(batch, histories, dry_step_); });
  return run_logits(batch, histories, step_.arena);
}

LossSum Model::evaluate(const Batch& batch, std::span<History> histories) {
  check_batch(batch, histories, /*needs_targets=*/true);
  return measure(logits(batch, histories), batch);
}

LossSum Model::measure(ConstMatrix scores, const Batch& batch) const {
  const Place::Part part("head");
  const Place::Scope scope(Head::kMeter, Phase::kForward);
  return loss_->measure(scores, goal(batch));
}

ConstMatrix Model::decode(const Batch& batch, std::span<KeyValueCache> caches) {
  require(
      config_.family == "decoder" && config_.head == "lm",
      "[model] {} models cannot generate token by token; need a decoder with a language-model head",
      config_.family);
  require(caches.size() == decoder_->self_attentions(),
          "[model] {} caches; need one for each of {} layers", caches.size(),
          decoder_->self_attentions());
  require(batch.lengths.empty(),
          "[model] lengths of padded sequences while decoding; need whole sequences");
  check_batch(batch, {}, /*needs_targets=*/false);
  const KeyValueCache& first = caches.front();
  require(first.batch == batch.batch, "[model] {} sequences; the caches are for {}", batch.batch,
          first.batch);
  require(first.used + batch.length <= config_.max_length,
          "[model] {} tokens behind {}; the model takes at most {}", batch.length, first.used,
          config_.max_length);
  // For the first and the last position, so that no later token books again.
  book("decode", batch, first.capacity, [&] {
    const std::size_t most = std::min(first.capacity, config_.max_length);
    const std::size_t last = most - std::min(most, batch.length);
    return std::max(walk_decode(batch, 0, first.capacity, dry_step_),
                    walk_decode(batch, last, first.capacity, dry_step_));
  });
  return run_decode(batch, caches, step_.arena);
}

ConstMatrix Model::run_decode(const Batch& batch, std::span<KeyValueCache> caches,
                              Arena& arena) const {
  const Matrix x = infer(batch, {}, caches, arena);
  const Place::Part part("head");
  Pass last = output_pass(batch);
  last.length = 1;
  // The last token of every sequence: rows length − 1, 2·length − 1, …
  const ConstMatrix tail(x.row_data(batch.length - 1), batch.batch, x.cols,
                         x.stride * batch.length);
  return head_->forward(last, tail, /*saves=*/false, arena).logits;
}

std::size_t Model::cache_bytes(std::size_t batch, std::size_t capacity) const {
  const Dry dry;
  Arena arena = Arena::dry();
  make_caches(batch, capacity, arena);
  return arena.used();
}

std::vector<KeyValueCache> Model::make_caches(std::size_t batch, std::size_t capacity,
                                              Arena& arena) const {
  std::vector<KeyValueCache> caches;
  lay_out_caches(batch, capacity, arena, caches);
  return caches;
}

void Model::lay_out_caches(std::size_t batch, std::size_t capacity, Arena& arena,
                           std::vector<KeyValueCache>& caches) const {
  caches.assign(decoder_->self_attentions(), {});
  for (std::size_t layer = 0; layer < caches.size(); ++layer) {
    const MultiHeadAttention& attention = decoder_->self_attention(layer);
    KeyValueCache& c = caches[layer];
    c.batch = batch;
    c.capacity = capacity;
    c.state = arena.take(attention.state_floats(batch));
    c.clear();
    if (!c.state.empty()) continue;
    const std::size_t heads = attention.config().kv_heads;
    const std::size_t floats = batch * heads * capacity * attention.d_head();
    c.k = Heads(arena.take(floats).data(), batch, heads, capacity, attention.d_head());
    c.v = Heads(arena.take(floats).data(), batch, heads, capacity, attention.d_head());
    c.notes = arena.take(attention.note_floats(batch, capacity));
  }
}

}  // namespace longspan
