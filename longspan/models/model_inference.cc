// Passes that keep nothing: evaluation, and decoding with a cache.
#include "longspan/base/error.h"
#include "longspan/models/model.h"

namespace longspan {

Matrix Model::infer(const Batch& batch, std::span<KeyValueCache> caches) {
  Matrix x;
  Matrix memory;
  if (has_encoder()) {
    const Pass pass = encoder_pass(batch, 0, false);
    x = arena_.matrix(pass.rows(), config_.d_model);
    encoder_embedding_->forward(pass, encoder_tokens(batch), x, nullptr, arena_);
    memory = x = encoder_->infer(pass, x, {}, arena_);
  }
  if (has_decoder()) {
    Pass pass = decoder_pass(batch, 0, false);
    pass.memory = memory;
    TokenInput tokens = decoder_tokens(batch);
    if (!caches.empty()) tokens.first_position = caches.front().used;
    x = arena_.matrix(pass.rows(), config_.d_model);
    decoder_embedding_->forward(pass, tokens, x, nullptr, arena_);
    x = decoder_->infer(pass, x, caches, arena_);
  }
  if (mlp_) x = mlp_->infer(decoder_pass(batch, 0, false), features(batch), arena_);
  return x;
}

std::size_t Model::planned_inference(const Batch& shape, KeyValueCache* cache) const {
  ArenaPlan plan;
  if (has_encoder()) {
    const Pass pass = encoder_pass(shape, 0, false);
    plan.take(Arena::bytes_for(pass.rows() * config_.d_model));
    encoder_embedding_->plan_forward(pass, false, plan);
    encoder_->plan_infer(pass, plan);
  }
  if (has_decoder()) {
    Pass pass = decoder_pass(shape, 0, false);
    pass.cache = cache;
    plan.take(Arena::bytes_for(pass.rows() * config_.d_model));
    decoder_embedding_->plan_forward(pass, false, plan);
    decoder_->plan_infer(pass, plan);
  }
  Pass out = output_pass(shape);
  if (mlp_) mlp_->plan_infer(out, plan);
  if (cache != nullptr) out.length = 1;
  head_->plan_forward(out, false, plan);
  return plan.peak();
}

std::size_t Model::inference_bytes(const Batch& shape) const {
  return planned_inference(shape, nullptr);
}

ConstMatrix Model::logits(const Batch& batch) {
  check_batch(batch, /*needs_targets=*/false);
  book(batch, /*training=*/false, inference_bytes(batch));
  const Matrix x = infer(batch, {});
  return head_->forward(output_pass(batch), x, /*saves=*/false, arena_).logits;
}

CrossEntropy Model::evaluate(const Batch& batch) {
  check_batch(batch, /*needs_targets=*/true);
  const ConstMatrix scores = logits(batch);
  const Meter::Scope scope(Head::kMeter, Phase::kForward);
  return cross_entropy(scores, batch.targets);
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
  require(batch.histories.empty(),
          "[model] a memory of earlier segments while decoding; the caches are the memory");
  check_batch(batch, /*needs_targets=*/false);
  require(caches.front().batch == batch.batch, "[model] {} sequences; the caches are for {}",
          batch.batch, caches.front().batch);
  require(caches.front().used + batch.length <= config_.max_length,
          "[model] {} tokens behind {}; the model takes at most {}", batch.length,
          caches.front().used, config_.max_length);
  // Booked for a full cache, so that no later token books again.
  KeyValueCache full = caches.front();
  book(batch, /*training=*/false, planned_inference(batch, &full));
  const Matrix x = infer(batch, caches);
  Pass last = output_pass(batch);
  last.length = 1;
  // The last token of every sequence: rows length − 1, 2·length − 1, …
  const ConstMatrix tail(x.row_data(batch.length - 1), batch.batch, x.cols,
                         x.stride * batch.length);
  return head_->forward(last, tail, /*saves=*/false, arena_).logits;
}

std::size_t Model::cache_bytes(std::size_t batch, std::size_t capacity) const {
  std::size_t bytes = 0;
  for (std::size_t layer = 0; layer < decoder_->self_attentions(); ++layer) {
    const MultiHeadAttention& attention = decoder_->self_attention(layer);
    if (const std::size_t state = attention.state_floats(batch); state > 0) {
      bytes += Arena::bytes_for(state);
      continue;
    }
    const std::size_t floats = batch * attention.config().kv_heads * capacity * attention.d_head();
    bytes +=
        2 * Arena::bytes_for(floats) + Arena::bytes_for(attention.note_floats(batch, capacity));
  }
  return bytes;
}

std::vector<KeyValueCache> Model::make_caches(std::size_t batch, std::size_t capacity,
                                              Arena& arena) const {
  std::vector<KeyValueCache> caches(decoder_->self_attentions());
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
  return caches;
}

}  // namespace longspan
