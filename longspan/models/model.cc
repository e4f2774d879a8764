#include "longspan/models/model.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/config.h"
#include "longspan/base/memory.h"
#include "longspan/kernels/vector.h"

namespace longspan {

namespace {

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
  const Meter::Scope scope(Head::kMeter, Phase::kForward);
  return cross_entropy_forward(tape_.head.logits, batch.targets, scale);
}

void Model::backward(const Batch& batch, float scale) {
  require(tape_.ready && tape_.batch == batch.batch && tape_.length == batch.length,
          "[model] backward without a forward; need forward on the same batch just before");
  tape_.ready = false;  // what forward left is used up
  {
    const Meter::Scope scope(Head::kMeter, Phase::kBackward);
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
  plan.at({.phase = "forward", .layer = Head::kMeter});
  head_->plan_forward(out, true, plan);
  memory.kept = plan.used();
  plan.at({.phase = "backward", .layer = Head::kMeter});
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
  Cost& softmax = table[std::string(Head::kMeter)];
  softmax += head_->output_cost(out);
  softmax.forward += flops(Kind::kSoftmax, 5 * std::uint64_t{head_->rows(out)} * config_.outputs());
  // Without targets (a shape alone) every row counts.
  const std::uint64_t counted =
      batch.targets.empty() ? head_->rows(out) : count_targets(batch.targets);
  softmax.backward += flops(Kind::kSoftmax, counted);
  return parts;
}

}  // namespace longspan
