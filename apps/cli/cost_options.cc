// From options to a model and the batch it is counted on.
#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "command.h"
#include "cost.h"
#include "longspan/attention/exact/flash.h"
#include "longspan/attention/registry.h"
#include "longspan/base/config.h"
#include "longspan/io/checkpoint.h"
#include "longspan/io/config_json.h"
#include "longspan/io/json_file.h"
#include "longspan/layers/branches.h"
#include "longspan/models/presets.h"
#include "longspan/models/pretrained.h"

namespace longspan::cli {

namespace {

// Whose formulas the paper has.
constexpr const char* kExactAttention = "full";

// What can be counted.
constexpr Bounds kCostLength = from_to(1, kLargestLength);
constexpr Bounds kCostBatch = from_to(1, kLargestBatch);
constexpr Bounds kCostWidth = from_to(1, kLargestWidth);
constexpr Bounds kSomeCostWidth = from_to(0, kLargestWidth);

// The architecture of the paper: post-norm, GELU, biases in the FFN only, no table shared.
ModelConfig papers_architecture() {
  ModelConfig c;
  c.attention = kExactAttention;
  c.wiring = Wiring::kPostNorm;
  c.positions = PositionKind::kSinusoidal;
  c.attention_bias = false;
  c.tied = false;
  c.shared_table = false;
  return c;
}

std::size_t needed(const std::optional<std::size_t>& value, const char* flag) {
  require(value.has_value(), "[cost] {} is missing; need it, or --model NAME (see longspan list)",
          flag);
  return *value;
}

Workload from_dimensions(const ModelOptions& o) {
  Workload w;
  w.model = papers_architecture();
  const std::size_t encoder = o.encoder_layers.value_or(o.decoder_layers ? 0 : 1);
  const std::size_t decoder = o.decoder_layers.value_or(0);
  require(encoder + decoder > 0, "[cost] no layers; need --encoder-layers or --decoder-layers");
  if (encoder > 0 && decoder > 0) {
    w.model.family = Family::kEncoderDecoder;
    w.model.decoder_layers = decoder;
  } else {
    w.model.family = decoder > 0 || o.causal ? Family::kDecoder : Family::kEncoder;
  }
  w.model.layers = std::max(encoder, std::size_t{0}) > 0 ? encoder : decoder;
  needed(o.d_model, "--d-model");
  needed(o.heads, "--heads");
  needed(o.vocab, "--vocab");
  w.length = o.length ? *o.length : needed(o.target_length, "--length");
  return w;
}

void set_layers(const ModelOptions& o, Workload& w) {
  const Family family = w.model.family;
  if (o.encoder_layers.value_or(0) > 0) {
    require(family != Family::kDecoder,
            "[cost] --encoder-layers for a decoder; need --decoder-layers");
    w.model.layers = *o.encoder_layers;
  }
  if (o.decoder_layers.value_or(0) > 0) {
    require(family != Family::kEncoder,
            "[cost] --decoder-layers for an encoder; need --encoder-layers");
    (family == Family::kDecoder ? w.model.layers : w.model.decoder_layers) = *o.decoder_layers;
  }
  if (o.causal && family == Family::kEncoder) w.model.family = Family::kDecoder;
}

bool is_path(const std::string& text) {
  std::error_code ignored;  // a link that leads nowhere is no path
  return text.find('/') != std::string::npos || text.ends_with(".json") ||
         std::filesystem::exists(text, ignored);
}

Workload from_file(const std::filesystem::path& path, bool verbose) {
  std::error_code ignored;
  const bool directory = std::filesystem::is_directory(path, ignored);
  const nlohmann::json file = directory ? read_config(path) : read_json(path);
  Workload w;
  // A checkpoint of ours keeps its model beside the rest of the run.
  if (file.is_object() && file.contains("model") && !file.contains("model_type")) {
    w.model = config_from_json<ModelConfig>("model", file["model"]);
  } else {
    w.model = config_from_hugging_face(file);
    if (verbose) {
      const std::vector<std::string> passed = fields_of_no_account(file);
      w.note = fmt::format("fields that change nothing here: {}",
                           passed.empty() ? "none" : fmt::format("{}", fmt::join(passed, ", ")));
    }
    if (w.model.attention == FlashAttention::kName) w.model.attention = kExactAttention;
    for (const std::string& mechanism : split_list(w.model.attention, '|')) {
      if (find_branch(mechanism) != nullptr) continue;  // mixes tokens without attention
      if (w.model.dropout == 0.0F || abilities_of(mechanism).dropout) continue;
      w.note +=
          (w.note.empty() ? "" : "; ") +
          fmt::format("counted without the config's dropout: {} cannot drop attention weights",
                      find_mechanism(mechanism).name);
      w.model.dropout = 0.0F;
    }
  }
  w.length = longest_source(w.model);
  return w;
}

Workload from_model(const ModelOptions& o) {
  Workload w;
  if (is_path(o.model)) {
    w = from_file(o.model, o.verbose);
  } else {
    const Preset& preset = find_preset(o.model);
    w.model = preset.config();
    w.model.attention = kExactAttention;
    w.length = preset.length;
    w.output_layer = preset.output_layer;
  }
  if (w.has_both()) w.target_length = std::min(w.length, w.model.max_length);
  set_layers(o, w);
  if (o.length) w.length = *o.length;
  return w;
}

void set_head(const std::string& head, Workload& w) {
  const std::array<std::string_view, 3> known = {"none", name_of(HeadKind::kLanguage),
                                                 name_of(HeadKind::kClassifier)};
  if (std::ranges::find(known, head) == known.end()) {
    throw_unknown("cost", "head", head, {known.begin(), known.end()});
  }
  if (head == "none") {
    require(w.model.family == Family::kEncoder, "[cost] a {} without its head; need an encoder",
            w.model.family);
    if (w.model.head == HeadKind::kLanguage) {
      w.model.head_transform = false;
      w.model.classes = 1;
    }
    w.model.head = HeadKind::kClassifier;
    w.output_layer = false;
    return;
  }
  // A bare encoder's pooler is no part of a language model.
  if (head == name_of(HeadKind::kLanguage) && !w.output_layer) w.model.head_transform = false;
  w.model.head = head;
  w.output_layer = true;
}

template <class T>
void override_with(const std::optional<T>& value, T& field) {
  if (value) field = *value;
}

void set_variants(const ModelOptions& o, Workload& w) {
  ModelConfig& c = w.model;
  override_with(o.d_model, c.d_model);
  override_with(o.heads, c.heads);
  override_with(o.kv_heads, c.kv_heads);
  override_with(o.d_ff, c.d_ff);
  override_with(o.vocab, c.vocab);
  override_with(o.classes, c.classes);
  override_with(o.wiring, c.wiring);
  override_with(o.feed_forward, c.feed_forward);
  o.stages.set(c);
  override_with(o.norm, c.norm);
  override_with(o.activation, c.activation);
  override_with(o.positions, c.positions);
  override_with(o.axial_rows, c.axial_rows);
  override_with(o.axial_width, c.axial_width);
  require((!o.axial_rows && !o.axial_width) || c.positions == PositionKind::kAxial,
          "[cost] --axial-rows or --axial-width with {} positions; need --positions axial",
          c.positions.name());
  override_with(o.decoder_attention, c.decoder_attention);
  override_with(o.cross_attention, c.cross_attention);
  override_with(o.frozen_layers, c.frozen_layers);
  override_with(o.lora_rank, c.lora_rank);
  override_with(o.batch, w.batch);
  override_with(o.attention, c.attention);
  require(o.positions != PositionKind::kRotary || attends(c),
          "[cost] --positions rotary with mixers alone, which have no queries to rotate; need "
          "learned or sinusoidal");
  c.gated = c.gated || o.gated;
  c.checkpointing = c.checkpointing || o.checkpointing;
  require(!o.tied || !o.untied, "[cost] --tied and --untied; need the one or the other");
  if (o.tied) c.tied = c.shared_table = true;
  if (o.untied) c.tied = false;
  require(!o.no_bias || !o.attention_bias,
          "[cost] --no-bias and --attention-bias; need the one or the other");
  if (o.no_bias) c.bias = false;
  if (o.attention_bias) c.attention_bias = true;
  if (o.head) set_head(*o.head, w);
  require(!o.classes || (w.output_layer && c.head == HeadKind::kClassifier),
          "[cost] --classes with {}; need --head classifier",
          w.output_layer ? fmt::format("the head {}", c.head.name()) : "no head");
}

// Tables of positions are as long as the model says; everything else is as long as it must be.
void set_lengths(const ModelOptions& o, Workload& w) {
  if (w.has_both()) {
    w.target_length = o.target_length.value_or(w.target_length > 0 ? w.target_length : w.length);
  } else {
    w.target_length = o.target_length.value_or(0);
  }
  if (!o.lengths.empty()) {
    w.lengths = o.lengths;
    if (!o.batch) w.batch = o.lengths.size();
  }
  const std::size_t longest = std::max(w.length, w.target_length);
  const bool own = o.model.empty() || w.model.positions != PositionKind::kLearned;
  if (o.max_length)
    w.model.max_length = *o.max_length;
  else if (own)
    w.model.max_length = std::max(longest, o.model.empty() ? 1 : w.model.max_length);
  if (own && w.model.max_source_length > 0) {
    w.model.max_source_length = std::max(w.length, w.model.max_source_length);
  }
  const std::size_t source = longest_source(w.model);
  require(w.length <= source && w.target_length <= w.model.max_length,
          "[cost] {} tokens; the model has {} positions: need a shorter length or --max-length",
          longest, w.length <= source ? w.model.max_length : source);
}

}  // namespace

void add_model_options(CLI::App& command, ModelOptions& o) {
  const char* group = "Model";
  command
      .add_option("--model,model", o.model,
                  "Preset (see longspan list), config.json or its directory")
      ->group(group);
  add_number(command, "--encoder-layers", o.encoder_layers, "Blocks of the encoder", kSomeLayers,
             group);
  add_number(command, "--decoder-layers", o.decoder_layers, "Blocks of the decoder", kSomeLayers,
             group);
  add_number(command, "--d-model", o.d_model, "Width", kCostWidth, group);
  add_number(command, "--heads", o.heads, "Attention heads", kHeads, group);
  add_number(command, "--kv-heads", o.kv_heads, "Key-value heads", kSomeHeads, group);
  add_number(command, "--d-ff", o.d_ff, "Feed-forward width; 4 × width unless given",
             kSomeCostWidth, group);
  add_number(command, "--vocab", o.vocab, "Vocabulary", kCostWidth, group);
  add_number(command, "--classes", o.classes, "Classes of a classifier", kCostWidth, group);
  add_number(command, "--length", o.length, "N: tokens of the encoder's or only sequence",
             kCostLength, group);
  add_number(command, "--target-length", o.target_length, "M: tokens of the decoder's sequence",
             kCostLength, group);
  add_number(command, "--max-length", o.max_length, "Positions of the model", kCostLength, group);
  add_number(command, "--batch", o.batch, "Sequences of a step", kCostBatch, group);
  add_read(command, "--lengths", "Real tokens of each sequence: 100,128,…", "", group,
           [&command, &o](const std::string& written) {
             o.lengths.clear();
             for (const std::string& part : split_list(written, ',')) {
               o.lengths.push_back(read_number<std::int32_t>(command.get_name(), "--lengths", part,
                                                             from_to(0, 1e9)));
             }
           });
  command
      .add_flag("--verbose", o.verbose,
                "Names the fields of a config.json that change nothing here")
      ->group(group);
  group = "Variants";
  command
      .add_option("--attention", o.attention,
                  "Mechanism, KIND[:key=value,…]; see longspan list. The model's own unless given, "
                  "with exact attention as full")
      ->group(group);
  command
      .add_option("--decoder-attention", o.decoder_attention,
                  "Of the decoder's own sequence, beside an encoder; as --attention unless given")
      ->group(group);
  command
      .add_option("--cross-attention", o.cross_attention,
                  "From the decoder to the encoder; as the decoder's unless given")
      ->group(group);
  command.add_flag("--causal", o.causal, "Masked self-attention")->group(group);
  command
      .add_option("--feed-forward", o.feed_forward,
                  "What follows attention: dense, or experts:experts=8,top=2,…")
      ->group(group);
  o.stages.add(command, group);
  add_choice(command, "--wiring", o.wiring, "", group);
  add_choice(command, "--norm", o.norm, "", group);
  add_choice(command, "--activation", o.activation, "", group);
  add_choice(command, "--positions", o.positions, "", group);
  add_number(command, "--axial-rows", o.axial_rows, "Of axial positions", kCostLength, group);
  add_number(command, "--axial-width", o.axial_width, "Of their rows; columns have the rest",
             kCostWidth, group);
  command.add_option("--head", o.head, "none, lm or classifier")->group(group);
  command.add_flag("--gated", o.gated, "Gated feed-forward")->group(group);
  command.add_flag("--tied", o.tied, "One table of tokens for everything")->group(group);
  command.add_flag("--untied", o.untied, "A softmax layer of its own")->group(group);
  command.add_flag("--no-bias", o.no_bias, "No biases")->group(group);
  command.add_flag("--attention-bias", o.attention_bias, "Biases in attention too")->group(group);
  command
      .add_flag("--checkpointing", o.checkpointing,
                "Layers keep their input only and are computed again")
      ->group(group);
  add_number(command, "--frozen-layers", o.frozen_layers,
             "The embedding and so many first layers are not trained", kSomeLayers, group);
  add_number(command, "--lora-rank", o.lora_rank,
             "Only adapters of this rank in the attention are trained", kSomeCostWidth, group);
}

Workload workload_from(const ModelOptions& options) {
  require(!options.verbose || is_path(options.model),
          "[cost] --verbose without a config.json, of whose fields it speaks; need its path");
  Workload w = options.model.empty() ? from_dimensions(options) : from_model(options);
  set_variants(options, w);
  set_lengths(options, w);
  check(w);
  return w;
}

Workload other_workload(const ModelOptions& options, const std::string& other) {
  if (other.find('=') == std::string::npos) {
    ModelOptions its_own;
    its_own.model = other;
    its_own.attention = options.attention;
    its_own.batch = options.batch;
    its_own.length = options.length;
    its_own.target_length = options.target_length;
    return workload_from(its_own);
  }
  Workload w = workload_from(options);
  parse_options("cost", other, w.model);
  check(w);
  return w;
}

}  // namespace longspan::cli
