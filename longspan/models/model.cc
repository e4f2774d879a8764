#include "longspan/models/model.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/config.h"
#include "longspan/base/memory.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/gemm/packed_weights.h"
#include "longspan/kernels/rows/draw_normal.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

namespace {

using RotaryTables = std::vector<std::shared_ptr<RotaryTable>>;

// Of the layers of a stack in turn; equal ones share a table, and null is none.
RotaryTables make_rotary(const ModelConfig& c, std::size_t length, std::size_t heads) {
  const std::size_t width = c.head_width == 0 ? c.d_model / heads : c.head_width;
  RotaryTables tables;
  std::vector<RotaryConfig> known;
  for (const std::string& turn : split_list(c.rotary, '|')) {
    const std::size_t i = tables.size();
    tables.emplace_back();
    known.emplace_back();
    if (turn == "none") continue;
    known[i] = rotary_of(turn, {.base = c.rotary_base, .interleaved = c.rotary_interleaved});
    for (std::size_t j = 0; j < i; ++j) {
      if (tables[j] != nullptr && known[j] == known[i]) tables[i] = tables[j];
    }
    if (tables[i] == nullptr) {
      tables[i] = std::make_shared<RotaryTable>(known[i], length, width);
    }
  }
  return tables;
}

// The side of a model that a stack is.
struct Side {
  bool causal = false;
  bool cross = false;
  std::size_t layers = 0;
  std::size_t heads = 0;
  std::size_t d_ff = 0;
  std::size_t max_length = 0;  // of what it reads
  std::string attention;
};

Norm::Learns norm_learns(const ModelConfig& c) {
  return {.scale = c.norm_weight, .shift = c.norm_bias};
}

StagesConfig stages_config(const ModelConfig& c) {
  return {.layers = layers_of_stages(c),
          .maximum = c.stage_pool == StagePool::kMax,
          .cls = c.stage_cls,
          .truncated = c.stage_truncate,
          .unpooled_keys = c.unpooled_keys};
}

// The attention of pooled queries in place of that within a sequence.
std::string unpooled(const std::string& mixer) {
  constexpr std::string_view kAttention = "attention:";
  require(mixer.starts_with(kAttention),
          "[model] {} has no keys that could stay unpooled; need unpooled_keys = false", mixer);
  return "pooled:" + mixer.substr(kAttention.size());
}

StackConfig stack_config(const ModelConfig& c, const Side& side, const RotaryTables& rotary) {
  StackConfig s;
  s.rotary.assign(rotary.begin(), rotary.end());
  if (!side.causal) s.stages = stages_config(c);
  const Stages stages(s.stages, side.layers);
  std::size_t branches = 0;
  for (std::size_t i = 0; i < side.layers; ++i) {
    std::vector<std::string>& block = s.layers.emplace_back();
    block.push_back(mixer_of(turn_of(side.attention, i)));
    if (stages.reads_unpooled(i)) block.back() = unpooled(block.back());
    if (side.cross) {
      const std::string& cross = c.cross_attention.empty() ? side.attention : c.cross_attention;
      block.push_back("cross:" + turn_of(cross, i));
    }
    block.push_back(feed_forward_of(turn_of(c.feed_forward, i)));
    branches += block.size();
  }
  // Residual branches start small, so that the sum of all of them has the variance of one
  // (Radford et al., 2019).
  const float output_deviation = c.init_deviation / std::sqrt(static_cast<float>(branches));
  s.block.attention = {.d_model = c.d_model,
                       .heads = side.heads,
                       .kv_heads = c.kv_heads == 0 ? side.heads : c.kv_heads,
                       .head_width = c.head_width,
                       .causal = side.causal,
                       .bias = c.bias && c.attention_bias && c.projection_bias,
                       .output_bias = c.bias && c.attention_bias && c.output_bias,
                       .query_norm = c.query_norm,
                       .norm = c.norm,
                       .norm_learns = norm_learns(c),
                       .norm_epsilon = c.norm_epsilon,
                       .dropout = c.dropout,
                       .deviation = c.init_deviation,
                       .output_deviation = output_deviation,
                       .max_length = side.max_length,
                       .lora_rank = c.lora_rank,
                       .lora_alpha = c.lora_alpha};
  s.block.feed_forward = {.d_model = c.d_model,
                          .d_ff = side.d_ff,
                          .activation = c.activation,
                          .gated = c.gated,
                          .bias = c.bias && c.feed_forward_bias,
                          .deviation = c.init_deviation,
                          .output_deviation = output_deviation};
  s.wiring = c.wiring;
  s.shared = c.shared_layers;
  s.first_norm = c.first_norm;
  s.final_norm = c.final_norm;
  s.concatenates = c.streams == StreamEnd::kConcat;
  s.norm = c.norm;
  s.norm_learns = norm_learns(c);
  s.epsilon = c.norm_epsilon;
  s.dropout = c.dropout;
  s.checkpointing = c.checkpointing;
  return s;
}

// Of an encoder–decoder's decoder, or of the only stack and the encoder's.
EmbeddingConfig embedding_config(const ModelConfig& c, bool of_decoder) {
  return {.vocab = c.vocab,
          .d_model = c.d_model,
          .width = c.embedding_width,
          .max_length = c.max_length,
          .positions = c.positions,
          .position_offset = c.position_offset,
          .axial_rows = c.axial_rows,
          .axial_width = c.axial_width,
          .token_types = c.token_types,
          .embeds_types = c.embedding_types,
          .scaled = c.embedding_scale,
          .masked = c.embedding_mask,
          .norm = c.embedding_norm,
          .norm_first = of_decoder && c.decoder_norm_first,
          .projection = c.embedding_projection,
          .projection_bias = c.embedding_projection_bias,
          .projects_tokens = c.embedding_projects_tokens,
          .norm_kind = c.norm,
          .norm_learns = norm_learns(c),
          .epsilon = c.norm_epsilon,
          .dropout = c.dropout,
          .deviation = c.init_deviation,
          .padding_token = static_cast<std::int32_t>(c.padding_token)};
}

// Of an encoder, which may read something else than tokens.
EmbeddingConfig source_embedding_config(const ModelConfig& c) {
  EmbeddingConfig e = embedding_config(c, false);
  e.max_length = longest_source(c);
  if (c.stem == StemKind::kTokens) return e;
  e.stem = {.kind = c.stem,
            .channels = c.channels,
            .image = c.image,
            .patch = c.patch,
            .bias = c.stem_bias,
            .class_token = c.class_token,
            .deviation = c.init_deviation};
  e.token_types = 0;
  e.scaled = false;
  e.padding_token = -1;
  return e;
}

HeadConfig head_config(const ModelConfig& c) {
  const bool pairs = c.head == HeadKind::kPairs;
  const bool pools = c.pools() && c.family != Family::kPerceptron;
  return {.d_model = c.streams == StreamEnd::kConcat ? 2 * c.d_model : c.d_model,
          .outputs = c.head == HeadKind::kStates ? 0 : c.outputs(),
          .pool = pools ? std::optional<Pool>(c.pool) : std::nullopt,
          .pair_width = pairs ? c.feed_forward_width() : 0,
          .transform = c.head_transform,
          .transform_bias = c.head_transform_bias,
          .transform_activates = c.head_activates,
          .activation = c.head_activation,
          .transform_norm = c.head_norm,
          .norm_kind = c.norm,
          .norm_learns = norm_learns(c),
          .epsilon = c.norm_epsilon,
          .width = c.output_width,
          .scale = c.head == HeadKind::kStates ? 1.0F : c.logit_scale,
          .cap = c.logit_cap,
          .bias = c.head_bias,
          .constant_bias = c.head_constant_bias,
          .deviation = c.family == Family::kPerceptron
                           ? std::sqrt(2.0F / static_cast<float>(c.d_model))
                           : c.init_deviation};
}

MlpConfig mlp_config(const ModelConfig& c) {
  return {.inputs = c.inputs,
          .hidden = c.d_model,
          .layers = c.layers,
          .activation = c.activation,
          .bias = c.bias,
          .dropout = c.dropout};
}

}  // namespace

Model::Model(const ModelConfig& config)
    : config_(config), parameters_(std::make_unique<Parameters>()), loss_(make_loss(config.loss)) {
  check(config);
  if (config.family == Family::kPerceptron) {
    const Place::Part part(ModelPart::kEncoder);
    mlp_.emplace(*parameters_, "mlp", mlp_config(config));
    make_head(nullptr);
    return;
  }
  const bool both = has_encoder() && has_decoder();
  const std::size_t decoder_heads = both ? config.heads_of_decoder() : config.heads;
  RotaryTables rotary;  // of the encoder, or of the only stack
  RotaryTables decoder_rotary;
  const std::size_t source_length = longest_source(config);
  const std::size_t decoder_length = std::max(config.max_length, source_length);
  if (config.positions == PositionKind::kRotary) {
    rotary_ = rotary = decoder_rotary = make_rotary(config, source_length, config.heads);
    if (both && (decoder_heads != config.heads || decoder_length != source_length)) {
      decoder_rotary = make_rotary(config, decoder_length, decoder_heads);
      rotary_.insert(rotary_.end(), decoder_rotary.begin(), decoder_rotary.end());
    }
  }
  if (has_encoder()) {
    const Place::Part part(ModelPart::kEncoder);
    encoder_embedding_.emplace(*parameters_, "embedding", source_embedding_config(config));
    StackConfig stack = stack_config(config,
                                     {.layers = config.layers,
                                      .heads = config.heads,
                                      .d_ff = config.feed_forward_width(),
                                      .max_length = source_length,
                                      .attention = config.attention},
                                     rotary);
    stack.frozen = config.frozen_layers;
    encoder_.emplace(*parameters_, "encoder", stack);
  }
  if (has_decoder()) {
    const Place::Part part(ModelPart::kDecoder);
    const EmbeddingConfig embedding = embedding_config(config, both);
    if (both && config.shared_table && encoder_embedding_->table() != nullptr) {
      decoder_embedding_.emplace(*parameters_, "decoder_embedding", embedding,
                                 encoder_embedding_->table());
    } else {
      decoder_embedding_.emplace(*parameters_, both ? "decoder_embedding" : "embedding", embedding);
    }
    const bool own = both && !config.decoder_attention.empty();
    StackConfig stack =
        stack_config(config,
                     {.causal = true,
                      .cross = both,
                      .layers = both ? config.decoder_layers : config.layers,
                      .heads = decoder_heads,
                      .d_ff = both ? config.feed_forward_of_decoder() : config.feed_forward_width(),
                      .max_length = decoder_length,
                      .attention = own ? config.decoder_attention : config.attention},
                     decoder_rotary);
    if (!both) stack.frozen = config.frozen_layers;
    decoder_.emplace(*parameters_, "decoder", stack);
  }
  Parameter* table = has_decoder() ? decoder_embedding_->table() : encoder_embedding_->table();
  make_head(config.head == HeadKind::kLanguage && config.tied ? table : nullptr);
  freeze();
}

void Model::make_head(Parameter* tied) {
  const Place::Part part(ModelPart::kHead);
  head_.emplace(*parameters_, "head", head_config(config_), tied);
  if (config_.pair_classes == 0) return;
  sentence_head_.emplace(*parameters_, "sentence_head",
                         SentenceHeadConfig{.d_model = output_width(),
                                            .classes = config_.pair_classes,
                                            .deviation = config_.init_deviation});
}

void Model::freeze() {
  if (config_.lora_rank > 0) {
    parameters_->freeze([](const Parameter& p) {
      return p.role != Role::kAdapter && p.role != Role::kOutputAdapter;
    });
  }
  if (config_.frozen_layers == 0) return;
  // Of the first stack.
  const ModelPart part = has_encoder() ? ModelPart::kEncoder : ModelPart::kDecoder;
  parameters_->freeze([&](const Parameter& p) {
    return p.place.part == part && (p.role == Role::kEmbedding ||
                                    (p.place.block && *p.place.block < config_.frozen_layers));
  });
}

void Model::check_layer(std::size_t layer) const {
  const std::size_t layers = mlp_ ? 0 : (encoder_ ? *encoder_ : *decoder_).layers();
  require(layer < layers, "[model] layer {} is asked for; {} mix tokens", layer, layers);
}

const Branch& Model::mixer(std::size_t layer) const {
  check_layer(layer);
  return (encoder_ ? *encoder_ : *decoder_).mixer(layer);
}

Branch& Model::mixer(std::size_t layer) {
  check_layer(layer);
  return (encoder_ ? *encoder_ : *decoder_).mixer(layer);
}

bool Model::reads_padding() const {
  return loss_->reads_padding() || (encoder_ && encoder_->reads_padding()) ||
         (decoder_ && decoder_->reads_padding());
}

Attention& Model::mechanism(std::size_t layer) {
  Attention* mechanism = mixer(layer).mechanism();
  require(mechanism != nullptr, "[model] what mixes the tokens of layer {} is no attention", layer);
  return *mechanism;
}

void Model::pack() {
  for (Parameter& p : parameters_->all()) {
    if (!p.packable || p.packed) continue;
    if (parameters_->allocated()) pack_weights({p.value.data(), p.rows, p.cols});
    p.packed = true;
  }
}

void Model::unpack() {
  for (Parameter& p : parameters_->all()) {
    if (!p.packed) continue;
    if (parameters_->allocated()) unpack_weights({p.value.data(), p.rows, p.cols});
    p.packed = false;
  }
}

void Model::allocate(RandomKey seed, Purpose purpose) {
  prepare_products();
  parameters_->allocate(purpose);
  parameters_->initialize(seed, draw_normal);
  for (const std::shared_ptr<RotaryTable>& table : rotary_) {
    if (table != nullptr) table->allocate();
  }
  if (encoder_embedding_) encoder_embedding_->allocate();
  if (decoder_embedding_) decoder_embedding_->allocate();
}

void Model::begin_step(std::uint64_t step) {
  parameters_->require_allocated("model");
  if (encoder_) encoder_->begin_step(step);
  if (decoder_) decoder_->begin_step(step);
}

void Model::end_step() {
  parameters_->require_allocated("model");
  if (encoder_) encoder_->end_step();
  if (decoder_) decoder_->end_step();
}

LossSum Model::forward(const Batch& batch, RandomKey key, float scale,
                       std::span<History> histories) {
  check_batch(batch, histories, /*needs_targets=*/true);
  parameters_->require_trainable("model");
  prepare_training(batch, histories);
  step_.tape.histories = histories;
  return run_forward(batch, key, scale, step_);
}

LossSum Model::run_forward(const Batch& batch, RandomKey key, float scale, Step& step) const {
  Arena& arena = step.arena;
  Tape& tape = step.tape;
  tape.key = key;
  tape.batch = batch.batch;
  tape.rows = batch.rows();
  // Auxiliary losses are means over tokens; beside a sum over targets they count as often.
  const auto counted = static_cast<float>(goal(batch).counted);
  begin_routing(batch, scale * counted, step);
  Matrix x;
  if (has_encoder()) {
    const Place::Part part(ModelPart::kEncoder);
    const Pass pass = encoder_pass(batch, key, true, tape.histories);
    x = encoder_embedding_->embed(pass, encoder_tokens(batch), &tape.encoder_embedding, arena);
    x = encoder_->forward(pass, x, tape.encoder, encoder_beside(tape.histories, &step), arena);
    tape.context = x;
  }
  if (has_decoder()) {
    const Place::Part part(ModelPart::kDecoder);
    Pass pass = decoder_pass(batch, key, true, tape.histories);
    pass.context = tape.context;
    x = decoder_embedding_->embed(pass, decoder_tokens(batch), &tape.decoder_embedding, arena);
    x = decoder_->forward(pass, x, tape.decoder, decoder_beside(tape.histories, &step), arena);
  }
  if (mlp_) {
    const Place::Part part(ModelPart::kEncoder);
    x = mlp_->forward(decoder_pass(batch, key, true), features(batch), tape.mlp, arena);
  }
  const Place::Part part(ModelPart::kHead);
  tape.head = head_->forward(output_pass(batch), x, /*saves=*/true, arena);
  tape.ready = true;
  const Place::Scope scope(Head::kMeter, Phase::kForward);
  LossSum loss = loss_->predict(tape.head.logits, goal(batch), scale);
  loss.loss += loss_->states(x, goal(batch));
  loss.loss += static_cast<double>(counted) * auxiliary_loss(step);
  if (judges_sentences(batch)) loss.loss += predict_sentences(batch, x, scale, step);
  return loss;
}

void Model::begin_routing(const Batch& batch, float weight, Step& step) const {
  std::size_t known = 0;  // loads that the batch gives
  const auto begin = [&](const std::optional<Stack>& stack, std::vector<Routing>& routings,
                         RoutingLoss& joint) {
    if (!stack || !stack->chooses()) return;
    routings.resize(stack->residuals().size());
    joint.clear();
    for (std::size_t i = 0; i < routings.size(); ++i) {
      routings[i].loss.clear();
      routings[i].weight = weight;
      const std::size_t experts = stack->residuals()[i].branch().experts();
      if (!Dry::on() || experts == 0) continue;
      routings[i].loads.clear();
      if (batch.loads.empty()) continue;
      require(known + experts <= batch.loads.size(), "[model] loads of {} experts; there are more",
              batch.loads.size());
      const auto own = batch.loads.subspan(known, experts);
      routings[i].loads.assign(own.begin(), own.end());
      known += experts;
    }
  };
  begin(encoder_, step.encoder_routings, step.encoder_loss);
  begin(decoder_, step.decoder_routings, step.decoder_loss);
}

double Model::auxiliary_loss(const Step& step) {
  double sum = step.encoder_loss.value() + step.decoder_loss.value();
  for (const Routing& r : step.encoder_routings) sum += r.loss.value();
  for (const Routing& r : step.decoder_routings) sum += r.loss.value();
  return sum;
}

std::size_t Model::used_parameters() const {
  std::size_t idle = 0;
  if (encoder_) idle += encoder_->idle_parameters();
  if (decoder_) idle += decoder_->idle_parameters();
  return parameters_->total() - idle;
}

std::vector<std::int32_t> Model::loads() const {
  std::vector<std::int32_t> all;
  for (const auto* routings : {&step_.encoder_routings, &step_.decoder_routings}) {
    for (const Routing& r : *routings) all.insert(all.end(), r.loads.begin(), r.loads.end());
  }
  return all;
}

void Model::backward(const Batch& batch, float scale) {
  Tape& tape = step_.tape;
  require(tape.ready && tape.batch == batch.batch && tape.rows == batch.rows(),
          "[model] backward without a forward; need forward on the same batch just before");
  tape.ready = false;  // what forward left is used up
  run_backward(batch, scale, step_);
}

void Model::run_backward(const Batch& batch, float scale, Step& step) const {
  Arena& arena = step.arena;
  Tape& tape = step.tape;
  const Pass out = output_pass(batch);
  const Arena::Frame frame(arena);
  Matrix g;
  {
    const Place::Part part(ModelPart::kHead);
    const Place::Scope scope(Head::kMeter, Phase::kBackward);
    loss_->error(tape.head.logits, goal(batch), scale);
    g = arena.matrix(out.rows(), output_width());
    head_->backward(out, tape.head, g, arena);
    loss_->states_error(tape.head.input, goal(batch), scale, g);
    if (judges_sentences(batch)) sentence_signal(batch, scale, g, step);
  }
  if (mlp_) {
    const Place::Part part(ModelPart::kEncoder);
    mlp_->backward(decoder_pass(batch, tape.key, true), tape.mlp, g);
  }
  Matrix encoder_gradient = g;
  if (has_decoder()) {
    const Place::Part part(ModelPart::kDecoder);
    Pass pass = decoder_pass(batch, tape.key, true, tape.histories);
    StackBeside beside = decoder_beside(tape.histories, &step);
    if (has_encoder()) {
      const Place::Scope scope(MultiHeadAttention::kCrossMeter, Phase::kBackward);
      pass.context = tape.context;
      encoder_gradient = arena.matrix(pass.context_rows(), config_.d_model);
      fill(encoder_gradient, 0.0F);
      beside.context_gradient = encoder_gradient;
    }
    g = decoder_->backward(pass, tape.decoder, g, beside, arena);
    decoder_embedding_->backward(pass, decoder_tokens(batch), tape.decoder_embedding, g, arena);
  }
  if (has_encoder()) {
    const Place::Part part(ModelPart::kEncoder);
    const Pass pass = encoder_pass(batch, tape.key, true, tape.histories);
    encoder_gradient = encoder_->backward(pass, tape.encoder, encoder_gradient,
                                          encoder_beside(tape.histories, &step), arena);
    encoder_embedding_->backward(pass, encoder_tokens(batch), tape.encoder_embedding,
                                 encoder_gradient, arena);
  }
}

}  // namespace longspan
