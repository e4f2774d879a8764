#include "longspan/models/model.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/config.h"
#include "longspan/base/memory.h"
#include "longspan/kernels/vector.h"

namespace longspan {

namespace {

constexpr std::string_view kLossMeter = "softmax layer";

NormKind norm_kind(const ModelConfig& c) {
  return c.norm == "rms" ? NormKind::kRms : NormKind::kLayer;
}

StackConfig stack_config(const ModelConfig& c, bool causal, bool cross, std::size_t layers,
                         const std::shared_ptr<const RotaryTable>& rotary) {
  // Residual branches start small, so that the sum of all of them has the variance of one
  // (Radford et al., 2019).
  const float branches = static_cast<float>(layers * (cross ? 3 : 2));
  const float output_deviation = c.init_deviation / std::sqrt(branches);
  StackConfig s;
  s.layers = layers;
  s.cross = cross;
  s.attention = {.d_model = c.d_model,
                 .heads = c.heads,
                 .kv_heads = c.kv_heads == 0 ? c.heads : c.kv_heads,
                 .causal = causal,
                 .bias = c.bias && c.attention_bias,
                 .dropout = c.dropout,
                 .deviation = c.init_deviation,
                 .output_deviation = output_deviation,
                 .attention = c.attention,
                 .max_length = c.max_length,
                 .lora_rank = c.lora_rank,
                 .lora_alpha = c.lora_alpha,
                 .rotary = rotary};
  s.feed_forward = {.d_model = c.d_model,
                    .d_ff = c.d_ff == 0 ? 4 * c.d_model : c.d_ff,
                    .activation = activation_from(c.activation),
                    .gated = c.gated,
                    .bias = c.bias,
                    .deviation = c.init_deviation,
                    .output_deviation = output_deviation};
  s.wiring = wiring_from(c.wiring);
  s.final_norm = c.final_norm;
  s.concatenates = c.streams == "concat";
  s.cross_attention = c.cross_attention;
  s.norm = norm_kind(c);
  s.epsilon = c.norm_epsilon;
  s.dropout = c.dropout;
  s.checkpointing = c.checkpointing;
  return s;
}

EmbeddingConfig embedding_config(const ModelConfig& c) {
  return {.vocab = c.vocab,
          .d_model = c.d_model,
          .max_length = c.max_length,
          .positions = position_kind_from(c.positions),
          .position_offset = c.position_offset,
          .axial_rows = c.axial_rows,
          .axial_width = c.axial_width,
          .token_types = c.token_types,
          .scaled = c.embedding_scale,
          .masked = c.embedding_mask,
          .norm = c.embedding_norm,
          .norm_kind = norm_kind(c),
          .epsilon = c.norm_epsilon,
          .dropout = c.dropout,
          .deviation = c.init_deviation,
          .padding_token = static_cast<std::int32_t>(c.padding_token)};
}

HeadConfig head_config(const ModelConfig& c) {
  return {.d_model = c.streams == "concat" ? 2 * c.d_model : c.d_model,
          .outputs = c.outputs(),
          .pool = c.head == "classifier" && c.family != "mlp" ? pool_from(c.pool) : Pool::kNone,
          .transform = c.head_transform,
          .activation = activation_from(c.head_activation),
          .transform_norm = c.head_norm,
          .norm_kind = norm_kind(c),
          .epsilon = c.norm_epsilon,
          .bias = c.head_bias,
          .deviation = c.family == "mlp" ? std::sqrt(2.0F / static_cast<float>(c.d_model))
                                         : c.init_deviation};
}

MlpConfig mlp_config(const ModelConfig& c) {
  return {.inputs = c.inputs,
          .hidden = c.d_model,
          .layers = c.layers,
          .activation = activation_from(c.activation),
          .bias = c.bias,
          .dropout = c.dropout};
}

}  // namespace

Model::Model(const ModelConfig& config, ModelUse use)
    : config_(config), use_(use), parameters_(std::make_unique<Parameters>()) {
  check(config);
  if (config.family == "mlp") {
    mlp_.emplace(*parameters_, "mlp", mlp_config(config));
    head_.emplace(*parameters_, "head", head_config(config), nullptr);
    return;
  }
  // Positions of which sines and cosines are stored.
  const std::size_t tabled = use == ModelUse::kRun ? config.max_length : 1;
  std::shared_ptr<const RotaryTable> rotary;
  if (config.positions == "rotary") {
    rotary = std::make_shared<RotaryTable>(Rotary{config.rotary_base, config.rotary_interleaved},
                                           tabled, config.d_model / config.heads);
  }
  EmbeddingConfig embedding = embedding_config(config);
  if (config.positions == "sinusoidal") embedding.max_length = tabled;
  const bool both = has_encoder() && has_decoder();
  if (has_encoder()) {
    encoder_embedding_.emplace(*parameters_, "embedding", embedding);
    StackConfig stack = stack_config(config, false, false, config.layers, rotary);
    stack.frozen = config.frozen_layers;
    encoder_.emplace(*parameters_, "encoder", stack);
  }
  if (has_decoder()) {
    if (both && config.shared_table) {
      decoder_embedding_.emplace(*parameters_, "decoder_embedding", embedding,
                                 encoder_embedding_->table());
    } else {
      decoder_embedding_.emplace(*parameters_, both ? "decoder_embedding" : "embedding", embedding);
    }
    StackConfig stack =
        stack_config(config, true, both, both ? config.decoder_layers : config.layers, rotary);
    if (!both) stack.frozen = config.frozen_layers;
    if (both && !config.decoder_attention.empty()) {
      stack.attention.attention = config.decoder_attention;
    }
    decoder_.emplace(*parameters_, "decoder", stack);
  }
  Parameter& table = has_decoder() ? decoder_embedding_->table() : encoder_embedding_->table();
  head_.emplace(*parameters_, "head", head_config(config),
                config.head == "lm" && config.tied ? &table : nullptr);
  freeze();
}

void Model::freeze() {
  if (config_.lora_rank > 0) {
    parameters_->freeze([](const std::string& name) {
      return !name.ends_with(".lora_a") && !name.ends_with(".lora_b");
    });
  }
  if (config_.frozen_layers == 0) return;
  const std::string stack = has_encoder() ? "encoder." : "decoder.";
  parameters_->freeze([&](const std::string& name) {
    if (name.starts_with("embedding.")) return true;
    for (std::size_t layer = 0; layer < config_.frozen_layers; ++layer) {
      if (name.starts_with(stack + std::to_string(layer) + ".")) return true;
    }
    return false;
  });
}

void Model::allocate(RandomKey seed) {
  require(use_ == ModelUse::kRun, "[model] built to be counted; need one that is built to run");
  parameters_->allocate();
  parameters_->initialize(seed);
}

void Model::begin_step(std::uint64_t step) {
  if (encoder_) encoder_->begin_step(step);
  if (decoder_) decoder_->begin_step(step);
}

void Model::check_shape(const Batch& batch) const {
  require(batch.batch > 0 && batch.length > 0,
          "[model] {} sequences of {} tokens; need at least 1 of each", batch.batch, batch.length);
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
  if (mlp_) return;
  const std::size_t layers = (decoder_ ? *decoder_ : *encoder_).self_attentions();
  require(batch.histories.empty() ||
              (batch.histories.size() == layers && batch.histories.front().batch() == batch.batch),
          "[model] memories of {} layers; need {}, each of {} sequences", batch.histories.size(),
          layers, batch.batch);
  if (has_encoder() && has_decoder()) {
    require(batch.source_length > 0 && batch.source_length <= config_.max_length,
            "[model] {} source tokens; need 1 to {}", batch.source_length, config_.max_length);
    check_lengths(batch.source_lengths, batch.source_length);
  }
}

void Model::check_batch(const Batch& batch, bool needs_targets) const {
  check_shape(batch);
  require(!mlp_ || batch.features.size() == batch.batch * config_.inputs,
          "[model] {} features; need {} of each of {} examples", batch.features.size(),
          config_.inputs, batch.batch);
  if (has_encoder())
    encoder_embedding_->check(encoder_pass(batch, 0, false), encoder_tokens(batch));
  if (has_decoder())
    decoder_embedding_->check(decoder_pass(batch, 0, false), decoder_tokens(batch));
  if (!needs_targets) return;
  const std::size_t rows = head_->rows(output_pass(batch));
  const std::size_t outputs = config_.outputs();
  require(batch.targets.size() == rows, "[model] {} targets; need {}", batch.targets.size(), rows);
  for (const std::int32_t t : batch.targets) {
    require(t == kIgnoredTarget || (t >= 0 && static_cast<std::size_t>(t) < outputs),
            "[model] target {} is outside 0 to {}", t, outputs - 1);
  }
}

std::vector<History> Model::make_histories(std::size_t batch, std::size_t capacity) const {
  const std::size_t layers = (decoder_ ? *decoder_ : *encoder_).self_attentions();
  return {layers, History(batch, capacity, config_.d_model)};
}

void Model::remember(const Batch& batch, Pass& pass) {
  if (batch.histories.empty()) return;
  pass.histories = batch.histories;
  pass.history_length = batch.histories.front().length();
}

Pass Model::encoder_pass(const Batch& batch, RandomKey key, bool training) const {
  Pass pass;
  const bool source = has_decoder();
  pass.batch = batch.batch;
  pass.length = source ? batch.source_length : batch.length;
  pass.lengths = source ? batch.source_lengths : batch.lengths;
  pass.globals = batch.globals;
  if (!source) remember(batch, pass);
  pass.typed = !source && !batch.token_types.empty();
  pass.training = training;
  pass.key = derive(key, "encoder");
  return pass;
}

Pass Model::decoder_pass(const Batch& batch, RandomKey key, bool training) const {
  Pass pass;
  pass.batch = batch.batch;
  pass.length = batch.length;
  pass.lengths = batch.lengths;
  pass.typed = !batch.token_types.empty();
  pass.training = training;
  pass.key = derive(key, "decoder");
  remember(batch, pass);
  if (has_encoder()) {
    pass.memory_length = batch.source_length;
    pass.memory_lengths = batch.source_lengths;
  }
  return pass;
}

Pass Model::output_pass(const Batch& batch) const {
  return has_encoder() && !has_decoder() ? encoder_pass(batch, 0, false)
                                         : decoder_pass(batch, 0, false);
}

TokenInput Model::encoder_tokens(const Batch& batch) const {
  if (has_decoder()) return {batch.source, {}, 0};
  return {batch.tokens, batch.token_types, 0};
}

TokenInput Model::decoder_tokens(const Batch& batch) const {
  return {batch.tokens, batch.token_types, 0};
}

void Model::book(const Batch& batch, bool training, std::size_t bytes) {
  if (arena_.capacity() < bytes) {
    if (has_encoder()) encoder_->check(encoder_pass(batch, 0, training));
    if (has_decoder()) decoder_->check(decoder_pass(batch, 0, training));
    arena_ = Arena{};  // the old block first, so that the two never coexist
    require(
        bytes <= available_memory(),
        "[model] a step of {} × {} tokens needs {} of activations; {} are "
        "available: use a shorter length, a smaller batch, flash attention or reversible wiring",
        batch.batch, batch.length, format_bytes(bytes), format_bytes(available_memory()));
    arena_ = Arena(bytes);
  }
  arena_.clear();
  arena_.reset_peak();
  tape_.ready = false;
}

void Model::prepare_training(const Batch& shape) {
  check_shape(shape);
  book(shape, /*training=*/true, training_bytes(shape));
}

CrossEntropy Model::forward(const Batch& batch, RandomKey key, float scale) {
  check_batch(batch, /*needs_targets=*/true);
  book(batch, /*training=*/true, training_bytes(batch));
  tape_.key = key;
  tape_.batch = batch.batch;
  tape_.length = batch.length;
  Matrix x;
  if (has_encoder()) {
    const Pass pass = encoder_pass(batch, key, true);
    x = arena_.matrix(pass.rows(), config_.d_model);
    encoder_embedding_->forward(pass, encoder_tokens(batch), x, &tape_.encoder_embedding, arena_);
    x = encoder_->forward(pass, x, tape_.encoder, arena_);
    tape_.memory = x;
  }
  if (has_decoder()) {
    Pass pass = decoder_pass(batch, key, true);
    pass.memory = tape_.memory;
    x = arena_.matrix(pass.rows(), config_.d_model);
    decoder_embedding_->forward(pass, decoder_tokens(batch), x, &tape_.decoder_embedding, arena_);
    x = decoder_->forward(pass, x, tape_.decoder, arena_);
  }
  if (mlp_) x = mlp_->forward(decoder_pass(batch, key, true), features(batch), tape_.mlp, arena_);
  tape_.head = head_->forward(output_pass(batch), x, /*saves=*/true, arena_);
  tape_.ready = true;
  const Meter::Scope scope(kLossMeter, Phase::kForward);
  return cross_entropy_forward(tape_.head.logits, batch.targets, scale);
}

void Model::backward(const Batch& batch, float scale) {
  require(tape_.ready && tape_.batch == batch.batch && tape_.length == batch.length,
          "[model] backward without a forward; need forward on the same batch just before");
  tape_.ready = false;  // what forward left is used up
  {
    const Meter::Scope scope(kLossMeter, Phase::kBackward);
    cross_entropy_backward(tape_.head.logits, batch.targets, scale);
  }
  const Pass out = output_pass(batch);
  const Arena::Frame frame(arena_);
  Matrix g = arena_.matrix(out.rows(), output_width());
  head_->backward(out, tape_.head, g, arena_);
  if (mlp_) mlp_->backward(decoder_pass(batch, tape_.key, true), tape_.mlp, g);
  Matrix encoder_gradient = g;
  if (has_decoder()) {
    Pass pass = decoder_pass(batch, tape_.key, true);
    if (has_encoder()) {
      pass.memory = tape_.memory;
      encoder_gradient = arena_.matrix(pass.memory_rows(), config_.d_model);
      fill(encoder_gradient, 0.0F);
      pass.memory_gradient = encoder_gradient;
    }
    g = decoder_->backward(pass, tape_.decoder, g, arena_);
    decoder_embedding_->backward(pass, decoder_tokens(batch), tape_.decoder_embedding, g);
  }
  if (has_encoder()) {
    const Pass pass = encoder_pass(batch, tape_.key, true);
    encoder_gradient = encoder_->backward(pass, tape_.encoder, encoder_gradient, arena_);
    encoder_embedding_->backward(pass, encoder_tokens(batch), tape_.encoder_embedding,
                                 encoder_gradient);
  }
}

StepMemory Model::training_memory(const Batch& shape) const {
  ArenaPlan plan;
  StepMemory memory;
  const Pass encoder = encoder_pass(shape, 0, true);
  const Pass decoder = decoder_pass(shape, 0, true);
  const Pass out = output_pass(shape);
  const auto rows = [&](std::size_t count) { return Arena::bytes_for(count * config_.d_model); };
  if (has_encoder()) {
    plan.at({.phase = "forward", .layer = "embedding"});
    plan.take(rows(encoder.rows()));
    encoder_embedding_->plan_forward(encoder, true, plan);
    encoder_->plan_forward(encoder, plan);
  }
  if (has_decoder()) {
    plan.at({.phase = "forward", .layer = "embedding"});
    plan.take(rows(decoder.rows()));
    decoder_embedding_->plan_forward(decoder, true, plan);
    decoder_->plan_forward(decoder, plan);
  }
  if (mlp_) mlp_->plan_forward(decoder, plan);
  plan.at({.phase = "forward", .layer = kLossMeter});
  head_->plan_forward(out, true, plan);
  memory.kept = plan.used();
  plan.at({.phase = "backward", .layer = kLossMeter});
  plan.take(Arena::bytes_for(out.rows() * output_width()));
  head_->plan_backward(out, plan);
  if (has_decoder()) {
    if (has_encoder()) plan.take(rows(decoder.memory_rows()));
    decoder_->plan_backward(decoder, plan);
  }
  if (has_encoder()) encoder_->plan_backward(encoder, plan);
  memory.peak = plan.peak();
  memory.peak_at = plan.peak_at();
  memory.largest = plan.largest();
  memory.largest_at = plan.largest_at();
  return memory;
}

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
  const Meter::Scope scope(kLossMeter, Phase::kForward);
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

CostTable Model::cost(const Batch& batch, bool training) const {
  ModelCost parts = cost_by_part(batch, training);
  CostTable table = std::move(parts.encoder);
  for (const CostTable& part : {parts.decoder, parts.head}) {
    for (const auto& [layer, cost] : part) table[layer] += cost;
  }
  return table;
}

ModelCost Model::cost_by_part(const Batch& batch, bool training) const {
  ModelCost parts;
  if (has_encoder()) {
    const Pass pass = encoder_pass(batch, 0, training);
    parts.encoder["embedding"] = encoder_embedding_->cost(pass);
    encoder_->add_cost(pass, parts.encoder);
  }
  if (has_decoder()) {
    const Pass pass = decoder_pass(batch, 0, training);
    parts.decoder["embedding"] = decoder_embedding_->cost(pass);
    decoder_->add_cost(pass, parts.decoder);
  }
  if (mlp_) parts.encoder[std::string(Mlp::kMeter)] = mlp_->cost(decoder_pass(batch, 0, training));
  CostTable& table = parts.head;
  const Pass out = output_pass(batch);
  if (head_->transforms()) table["head"] += head_->transform_cost(out);
  Cost& softmax = table["softmax layer"];
  softmax += head_->output_cost(out);
  softmax.forward += flops(Kind::kSoftmax, 5 * std::uint64_t{head_->rows(out)} * config_.outputs());
  // Without targets (a shape alone) every row counts.
  const std::uint64_t counted =
      batch.targets.empty() ? head_->rows(out) : count_targets(batch.targets);
  softmax.backward += flops(Kind::kSoftmax, counted);
  return parts;
}

}  // namespace longspan
