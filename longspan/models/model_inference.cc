// Passes that keep nothing: evaluation, and decoding with a cache.
#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/models/model.h"

namespace longspan {

Matrix Model::infer(const Batch& batch, std::span<History> histories, std::span<DecodeCache> caches,
                    Step& step) const {
  Arena& arena = step.arena;
  begin_routing(batch, 0.0F, step);
  Matrix x;
  Matrix context;
  const std::size_t decoded = caches.empty() ? 0 : caches.front().used;
  // Later tokens find what the encoder gave in the caches of cross-attention.
  if (has_encoder() && decoded == 0) {
    const Place::Part part(ModelPart::kEncoder);
    const Pass pass = encoder_pass(batch, 0, false, histories);
    x = encoder_embedding_->embed(pass, encoder_tokens(batch), nullptr, arena);
    if (step.watch != nullptr) step.watch->see(Embedding::kMeter, x);
    context = x = encoder_->infer(pass, x, encoder_beside(histories, &step), arena);
  }
  if (has_decoder()) {
    const Place::Part part(ModelPart::kDecoder);
    Pass pass = decoder_pass(batch, 0, false, histories);
    pass.context = context;
    TokenInput tokens = decoder_tokens(batch);
    tokens.first_position = decoded;
    StackBeside beside = decoder_beside(histories, &step);
    beside.caches = caches;
    x = decoder_embedding_->embed(pass, tokens, nullptr, arena);
    if (step.watch != nullptr) step.watch->see(Embedding::kMeter, x);
    x = decoder_->infer(pass, x, beside, arena);
  }
  if (mlp_) {
    const Place::Part part(ModelPart::kEncoder);
    x = mlp_->infer(decoder_pass(batch, 0, false), features(batch), arena, step.watch);
  }
  return x;
}

Model::Outputs Model::run_outputs(const Batch& batch, std::span<History> histories,
                                  Step& step) const {
  const Matrix x = infer(batch, histories, {}, step);
  const Place::Part part(ModelPart::kHead);
  const Pass pass = output_pass(batch);
  Outputs outputs{.states = x,
                  .logits = head_->forward(pass, x, /*saves=*/false, step.arena).logits};
  if (sentence_head_) {
    outputs.sentences = sentence_head_->forward(pass, x, /*saves=*/false, step.arena).logits;
  }
  return outputs;
}

Model::Outputs Model::outputs(const Batch& batch, std::span<History> histories) {
  check_batch(batch, histories, /*needs_targets=*/false);
  book(StepKind{.name = "inference", .training = false}, batch, past(histories),
       [&] { return walk_inference(batch, histories, dry_step_); });
  return run_outputs(batch, histories, step_);
}

LossSum Model::evaluate(const Batch& batch, std::span<History> histories) {
  check_batch(batch, histories, /*needs_targets=*/true);
  return measure(outputs(batch, histories), batch);
}

LossSum Model::measure(ConstMatrix scores, const Batch& batch) const {
  const Place::Part part(ModelPart::kHead);
  const Place::Scope scope(Head::kMeter, Phase::kForward);
  return loss_->measure(scores, goal(batch));
}

ConstMatrix Model::decode(const Batch& batch, std::span<DecodeCache> caches) {
  require(has_decoder() && config_.head == HeadKind::kLanguage,
          "[model] {} models cannot generate token by token; need a decoder with a language-model "
          "head",
          config_.family);
  require(caches.size() == decoder_->residuals().size(),
          "[model] {} caches; need one for each of {} branches", caches.size(),
          decoder_->residuals().size());
  require(batch.lengths.empty(),
          "[model] lengths of padded sequences while decoding; need whole sequences");
  const DecodeCache& first = caches.front();
  check_batch(batch, {}, /*needs_targets=*/false, /*reads_source=*/first.used == 0);
  require(first.batch == batch.batch, "[model] {} sequences; the caches are for {}", batch.batch,
          first.batch);
  require(first.used + batch.length <= config_.max_length,
          "[model] {} tokens behind {}; the model takes at most {}", batch.length, first.used,
          config_.max_length);
  // For the first and the last position, so that no later token books again.
  book(StepKind{.name = "decode", .training = false}, batch, first.capacity, [&] {
    const std::size_t most = std::min(first.capacity, config_.max_length);
    const std::size_t last = most - std::min(most, batch.length);
    return std::max(walk_decode(batch, 0, first.capacity, dry_step_),
                    walk_decode(batch, last, first.capacity, dry_step_));
  });
  return run_decode(batch, caches, step_);
}

ConstMatrix Model::run_decode(const Batch& batch, std::span<DecodeCache> caches, Step& step) const {
  const Matrix x = infer(batch, {}, caches, step);
  const Place::Part part(ModelPart::kHead);
  Pass last = output_pass(batch);
  last.length = 1;
  // The last token of every sequence: rows length − 1, 2·length − 1, …
  const ConstMatrix tail(x.row_data(batch.length - 1), batch.batch, x.cols,
                         x.stride * batch.length);
  return head_->forward(last, tail, /*saves=*/false, step.arena).logits;
}

std::size_t Model::cache_bytes(std::size_t batch, std::size_t capacity, std::size_t source) const {
  const Dry dry;
  Arena arena = Arena::dry();
  make_caches(batch, capacity, arena, source);
  return arena.used();
}

std::vector<DecodeCache> Model::make_caches(std::size_t batch, std::size_t capacity, Arena& arena,
                                            std::size_t source) const {
  check_rows({.batch = batch, .length = capacity, .source_length = source});
  require(has_decoder(), "[model] {} models keep no caches; need a decoder", config_.family);
  std::vector<DecodeCache> caches;
  decoder_->lay_out_caches(batch, capacity, source, arena, caches);
  return caches;
}

}  // namespace longspan
