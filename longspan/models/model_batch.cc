// What a model asks of a batch, and what it makes of it.
#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/base/sizes.h"
#include "longspan/models/model.h"

namespace longspan {

void Model::check_rows(const Batch& batch) const {
  const std::size_t longest = std::max({batch.length, batch.source_length, config_.inputs});
  require(size_product(batch.batch, longest) <= ModelLimits::kLength,
          "[model] {} sequences of {} tokens; need at most {} tokens in all", batch.batch, longest,
          ModelLimits::kLength);
  require(config_.head != HeadKind::kPairs || batch.batch % 2 == 0,
          "[model] {} sequences for a head of pairs; need an even number", batch.batch);
}

std::string Model::needs_padding() const {
  if (mlp_) return "a perceptron reads no sequences";
  if (stem() != nullptr) return "a stem reads whole sequences";
  if (!config_.stages.empty()) return "stages pool padding too";
  if (loss_->reads_padding()) return fmt::format("the loss {} judges padding too", loss_->name());
  for (const std::optional<Stack>* stack : {&encoder_, &decoder_}) {
    const Branch* branch = *stack ? (*stack)->needs_padding() : nullptr;
    if (branch != nullptr) return fmt::format("{} knows no runs", branch->meter_name());
  }
  return "";
}

// Everything else is checked as of padded sequences.
void Model::check_packed(const Batch& batch, std::span<History> histories) const {
  require(packs(), "[model] packed sequences, and {}; need padded ones", needs_padding());
  require(histories.empty(),
          "[model] packed sequences beside histories of segments; need sequences of one length");
  const auto check_lengths = [&](std::span<const std::int32_t> lengths) {
    require(lengths.size() == batch.batch,
            "[model] {} lengths for {} packed sequences; need one each", lengths.size(),
            batch.batch);
    require(std::ranges::all_of(lengths, [](std::int32_t n) { return n > 0; }),
            "[model] a packed sequence of no tokens; need at least 1");
  };
  check_lengths(batch.lengths);
  if (has_encoder() && has_decoder()) check_lengths(batch.source_lengths);
}

void Model::check_shape(const Batch& batch, std::span<History> histories) const {
  require(batch.batch > 0 && batch.length > 0,
          "[model] {} sequences of {} tokens; need at least 1 of each", batch.batch, batch.length);
  check_rows(batch);
  require(batch.length <= config_.max_length, "[model] {} tokens; the model takes at most {}",
          batch.length, config_.max_length);
  const auto check_lengths = [&](std::span<const std::int32_t> lengths, std::size_t limit) {
    require(lengths.empty() || lengths.size() == batch.batch,
            "[model] {} lengths for {} sequences; need one each", lengths.size(), batch.batch);
    for (const std::int32_t n : lengths) {
      require(n >= 0 && static_cast<std::size_t>(n) <= limit,
              "[model] a sequence of {} real tokens; need 0 to {}", n, limit);
    }
  };
  check_lengths(batch.lengths, batch.length);
  if (batch.packed) check_packed(batch, histories);
  if (mlp_) return;
  const std::size_t layers = (decoder_ ? *decoder_ : *encoder_).layers();
  require(
      histories.empty() || (histories.size() == layers && histories.front().batch() == batch.batch),
      "[model] histories of {} layers; need {}, each of {} sequences", histories.size(), layers,
      batch.batch);
  require(config_.stages.empty() || (histories.empty() && batch.globals.empty()),
          "[model] histories of segments or global tokens in a model with stages; need neither");
  if (has_encoder() && has_decoder()) {
    const std::size_t longest = longest_source(config_);
    require(batch.source_length > 0 && batch.source_length <= longest,
            "[model] {} source tokens; need 1 to {}", batch.source_length, longest);
    check_lengths(batch.source_lengths, batch.source_length);
  }
}

void Model::check_batch(const Batch& batch, std::span<History> histories, bool needs_targets,
                        bool reads_source) const {
  parameters_->require_allocated("model");
  check_shape(batch, histories);
  require(!mlp_ || batch.features.size() == batch.batch * config_.inputs,
          "[model] {} features; need {} of each of {} examples", batch.features.size(),
          config_.inputs, batch.batch);
  if (has_encoder() && reads_source) {
    encoder_embedding_->check(encoder_pass(batch, 0, false), encoder_tokens(batch));
  }
  if (has_decoder())
    decoder_embedding_->check(decoder_pass(batch, 0, false), decoder_tokens(batch));
  if (!needs_targets) return;
  loss_->check(batch, output_rows(batch), config_.outputs());
  if (judges_sentences(batch)) {
    const Goal own = sentence_goal(batch);
    sentence_loss_.check(own.batch, batch.batch, config_.pair_classes);
  }
}

std::vector<History> Model::make_histories(std::size_t batch, std::size_t capacity) const {
  require(!mlp_, "[model] a perceptron has no segments; need an encoder or a decoder");
  const std::size_t layers = (decoder_ ? *decoder_ : *encoder_).layers();
  return {layers, History(batch, capacity, config_.d_model)};
}

void Model::remember(std::span<History> histories, Pass& pass) {
  pass.history_length = past(histories);
}

StackBeside Model::encoder_beside(std::span<History> histories, Step* step) const {
  StackBeside beside{.histories = has_decoder() ? std::span<History>{} : histories};
  if (step == nullptr) return beside;
  beside.routings = step->encoder_routings;
  beside.stages = &step->stages;
  beside.watch = step->watch;
  return beside;
}

StackBeside Model::decoder_beside(std::span<History> histories, Step* step) const {
  StackBeside beside{.histories = histories};
  if (step == nullptr) return beside;
  beside.routings = step->decoder_routings;
  beside.watch = step->watch;
  return beside;
}

Pass Model::encoder_pass(const Batch& batch, RandomKey key, bool training,
                         std::span<History> histories) const {
  Pass pass;
  const bool source = has_decoder();
  pass.batch = batch.batch;
  pass.length = source ? batch.source_length : batch.length;
  pass.lengths = source ? batch.source_lengths : batch.lengths;
  pass.packed = batch.packed;
  pass.globals = batch.globals;
  if (!source) remember(histories, pass);
  pass.typed = !source && !batch.token_types.empty();
  if (!source) pass.token_types = batch.token_types;
  pass.training = training;
  pass.key = derive(key, "encoder");
  return pass;
}

Pass Model::decoder_pass(const Batch& batch, RandomKey key, bool training,
                         std::span<History> histories) const {
  Pass pass;
  pass.batch = batch.batch;
  pass.length = batch.length;
  pass.lengths = batch.lengths;
  pass.packed = batch.packed;
  pass.typed = !batch.token_types.empty();
  pass.training = training;
  pass.key = derive(key, "decoder");
  remember(histories, pass);
  if (has_encoder()) {
    pass.context_length = batch.source_length;
    pass.context_lengths = batch.source_lengths;
  }
  return pass;
}

Model::Side Model::encoder_side(const Batch& batch, RandomKey key,
                                std::span<History> histories) const {
  return {*encoder_embedding_, *encoder_, encoder_tokens(batch),
          encoder_pass(batch, key, /*training=*/true, histories), encoder_beside(histories)};
}

Model::Side Model::decoder_side(const Batch& batch, RandomKey key,
                                std::span<History> histories) const {
  return {*decoder_embedding_, *decoder_, decoder_tokens(batch),
          decoder_pass(batch, key, /*training=*/true, histories), decoder_beside(histories)};
}

Pass Model::output_pass(const Batch& batch) const {
  Pass pass = has_encoder() && !has_decoder() ? encoder_pass(batch, 0, false)
                                              : decoder_pass(batch, 0, false);
  pass.tokens = batch.tokens;
  return pass;
}

TokenInput Model::encoder_tokens(const Batch& batch) const {
  if (has_decoder()) return {.tokens = batch.source, .features = batch.features};
  return {batch.tokens, batch.token_types, 0, batch.times, batch.features};
}

TokenInput Model::decoder_tokens(const Batch& batch) const {
  return {batch.tokens, batch.token_types, 0, batch.times};
}

}  // namespace longspan
