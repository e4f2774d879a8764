#include "longspan/testing/model_samples.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "longspan/attention/registry.h"
#include "longspan/base/random.h"
#include "longspan/layers/branches.h"

namespace longspan::testing {

namespace {

// One stream of small numbers for each sample.
class Draws {
 public:
  explicit Draws(std::uint64_t n) : key_(derive(derive(4711, "model samples"), n)) {}
  std::size_t below(std::size_t count) { return random_below(key_, next_++, count); }
  std::size_t between(std::size_t low, std::size_t high) { return low + below(high - low + 1); }
  bool once_in(std::size_t count) { return below(count) == 0; }
  template <std::size_t n>
  std::string_view of(const std::array<std::string_view, n>& choices) {
    return choices[below(n)];
  }

 private:
  RandomKey key_;
  std::uint64_t next_ = 0;
};

constexpr std::array<std::string_view, 3> kFamilies = {"encoder", "decoder", "encoder-decoder"};
constexpr std::array<std::string_view, 3> kWirings = {"pre", "post", "reversible"};
constexpr std::array<std::string_view, 4> kActivations = {"relu", "gelu", "gelu-tanh", "silu"};
constexpr std::array<std::string_view, 5> kPositions = {"none", "sinusoidal", "learned", "axial",
                                                        "rotary"};

void draw_embedding(Draws& draw, ModelConfig& c) {
  c.positions = draw.of(kPositions);
  c.position_offset = c.positions == PositionKind::kLearned ? draw.below(3) : 0;
  if (c.positions == PositionKind::kAxial) {
    c.axial_rows = draw.between(1, 5);
    c.axial_width = draw.between(1, c.d_model - 1);
  }
  c.rotary_interleaved = draw.once_in(2);
  c.embedding_norm = draw.once_in(3);
  c.embedding_scale = draw.once_in(3);
  c.embedding_mask = draw.once_in(4);
  c.token_types = draw.once_in(3) ? 2 : 0;
  c.padding_token = draw.once_in(4) ? 1 : -1;
}

void draw_head(Draws& draw, ModelConfig& c) {
  if (c.family == Family::kEncoder && draw.once_in(2)) {
    c.head = draw.once_in(2) ? "classifier" : "tagger";
    c.classes = draw.between(2, 7);
    c.pool = draw.once_in(2) ? "mean" : "first";
  }
  c.tied = draw.once_in(2);
  c.head_bias = draw.once_in(2);
  c.head_transform = draw.once_in(3);
  c.head_norm = c.head_transform && draw.once_in(2);
  c.head_activation = draw.of(kActivations);
  if (c.wiring == Wiring::kReversible && c.family != Family::kEncoderDecoder && draw.once_in(3)) {
    c.streams = StreamEnd::kConcat;
    c.tied = false;
  }
}

// What is trained, and what is kept for it.
void draw_training(Draws& draw, ModelConfig& c) {
  if (c.wiring != Wiring::kReversible) {
    c.checkpointing = draw.once_in(3);
    c.frozen_layers = draw.once_in(3) ? draw.between(1, c.layers) : 0;
  }
  c.lora_rank = draw.once_in(4) ? draw.between(1, 3) : 0;
}

void draw_latent(Draws& draw, ModelConfig& c) {
  if (c.cross_attention.empty() && c.family == Family::kEncoderDecoder) {
    c.cross_attention = c.attention;
  }
  c.attention = fmt::format("latent:rank={},query_rank={},nope={},rope={},value={}|{}",
                            draw.between(1, 9), draw.below(6), draw.between(1, 5),
                            2 * draw.below(4), draw.between(1, 6), c.attention);
  if (draw.once_in(2)) c.attention.resize(c.attention.find('|'));
  c.lora_rank = 0;
}

void draw_stages(Draws& draw, std::size_t length, ModelConfig& c) {
  const bool able =
      c.family == Family::kEncoder && c.wiring == Wiring::kPostNorm && !c.checkpointing;
  if (!able || c.frozen_layers > 0 || length < 5 || draw.once_in(3)) return;
  c.stages = draw.once_in(2) ? "1|1|1" : "2|1";
  c.layers = 4;
  c.stage_pool = draw.once_in(2) ? "max" : "mean";
  c.stage_cls = draw.once_in(2);
  c.stage_truncate = draw.once_in(2);
  const bool attends = find_branch(c.attention) == nullptr;
  c.unpooled_keys =
      attends && (abilities_of(c.attention).cross || abilities_of(c.attention).pooled);
}

// What released mixtures of experts add to the first options, of an even number of experts.
std::string experts_options(Draws& draw, std::size_t experts) {
  const bool sigmoid = draw.once_in(3);
  const bool passes = draw.once_in(3);
  std::string text = fmt::format(
      ",normalize_one={},scaling={},score={},router_bias={},correction={},width={},shared={},"
      "places="
      "{},overflow={},padding={},balance_of={},squares={}",
      0, draw.once_in(2) ? 1.0 : 2.5, sigmoid ? "sigmoid" : "softmax", draw.below(2), draw.below(2),
      draw.once_in(2) ? 0 : draw.between(3, 17), draw.once_in(2) ? 0 : draw.between(3, 17),
      draw.once_in(3) ? draw.between(1, 9) : 0, passes ? "pass" : "drop", draw.below(2),
      std::array{"layer", "stack", "sequences"}[draw.below(3)],
      sigmoid || draw.once_in(2) ? 0.0 : 0.02);
  if (text.find("shared=0") == std::string::npos && draw.once_in(2)) text += ",shared_gate=1";
  if (experts % 2 == 0 && draw.once_in(2)) {
    const bool pair = experts == 4 && draw.once_in(2);
    text += fmt::format(",groups=2,top_groups=2,group_score={}", pair ? "two-best" : "best");
  }
  return text;
}

}  // namespace

// The mechanisms of which tests/data/walks tells; newer ones stand behind them.
constexpr std::size_t kFirstMechanisms = 16;

ModelCase sample_model(std::uint64_t n) {
  Draws draw(n);
  const auto all = mechanisms().first(kFirstMechanisms);
  const Mechanism& mechanism = all[n % all.size()];
  const Abilities able = mechanism.abilities("");
  ModelConfig c;
  c.family = draw.of(kFamilies);
  if (c.family == Family::kDecoder && !able.causal) c.family = Family::kEncoder;
  const bool both = c.family == Family::kEncoderDecoder;
  c.wiring = draw.of(kWirings);
  c.layers = draw.between(1, 3);
  c.decoder_layers = both ? draw.between(1, 2) : 0;
  c.heads = draw.between(1, 4);
  c.d_model = 2 * c.heads * draw.between(1, 4);
  c.d_ff = draw.between(3, 21);
  c.vocab = draw.between(5, 23);
  c.max_length = draw.between(20, 90);
  c.attention = mechanism.name;
  if (both && !able.causal) c.decoder_attention = "flash";
  if (!able.cross) c.cross_attention = "full";
  if (able.grouped_heads && c.heads % 2 == 0 && draw.once_in(2)) c.kv_heads = c.heads / 2;
  c.norm = draw.once_in(2) ? "rms" : "layer";
  c.final_norm = !draw.once_in(4);
  c.activation = draw.of(kActivations);
  c.gated = draw.once_in(3);
  c.bias = !draw.once_in(3);
  c.attention_bias = draw.once_in(2);
  c.shared_table = draw.once_in(2);
  draw_embedding(draw, c);
  draw_head(draw, c);
  draw_training(draw, c);
  if (able.dropout && draw.once_in(3)) c.dropout = 0.1F;
  BatchShape shape;
  shape.batch = draw.between(1, 3);
  shape.length = draw.between(1, c.max_length);
  shape.source_length = both ? draw.between(1, c.max_length) : 0;
  shape.padded = able.key_lengths && draw.once_in(2);
  shape.typed = c.token_types > 0 && draw.once_in(2);
  return {fmt::format("{}: {} {} {}", n, c.family, c.wiring, c.attention), c, shape};
}

ModelCase sample_guest(std::uint64_t n) {
  ModelCase sample = sample_model(n);
  ModelConfig& c = sample.config;
  Draws draw(~n);
  if (c.family == Family::kEncoder && draw.once_in(2)) {
    c.attention = "fnet";
    c.lora_rank = 0;
    sample.shape.padded = sample.shape.padded && draw.once_in(2);
  } else if (c.family == Family::kEncoder && c.kv_heads == 0 && draw.once_in(2)) {
    const auto newer = mechanisms().subspan(kFirstMechanisms);
    c.attention = newer[draw.below(newer.size())].name;
  }
  c.embedding_projection = draw.once_in(3);
  const std::size_t experts = draw.between(1, 5);
  c.feed_forward = fmt::format("experts:experts={},top={},capacity={},balance={},normalize={}",
                               experts, draw.between(1, std::min<std::size_t>(experts, 3)),
                               0.5 * draw.between(1, 4), 0.01 * draw.below(2), draw.below(2));
  Draws more(n ^ (std::uint64_t{1} << 40U));
  if (more.once_in(2)) c.feed_forward += experts_options(more, experts);
  if (draw.once_in(3)) c.feed_forward = draw.once_in(2) ? "dense" : c.feed_forward + "|dense";
  draw_stages(draw, sample.shape.length, c);
  if (c.family == Family::kDecoder && draw.once_in(2)) {
    c.attention = fmt::format("conv:width={}|{}", draw.between(1, 5), c.attention);
  }
  if (c.stages.empty() && draw.once_in(4)) draw_latent(draw, c);
  if (c.family != Family::kEncoderDecoder && draw.once_in(6)) {
    c.positions = PositionKind::kTemporal;
  }
  if (c.head == HeadKind::kClassifier && draw.once_in(2)) {
    c.head = HeadKind::kPairs;
    c.head_transform = c.head_norm = false;
    sample.shape.batch *= 2;
  }
  sample.name += fmt::format(" {} {} {} {}", c.head, c.attention, c.feed_forward, c.stages);
  return sample;
}

namespace {

constexpr std::array<std::string_view, 4> kOtherWirings = {"sandwich", "reordered", "parallel",
                                                           "parallel-shared"};
constexpr std::array<std::string_view, 3> kQueryNorms = {"none", "head", "whole"};

// Of what a layer may turn: a head, or of latent attention a part of one.
std::size_t narrowest_turned(const ModelConfig& c) {
  std::size_t width = c.head_width > 0 ? c.head_width : c.d_model / c.heads;
  if (c.head_width == 0 && c.decoder_heads > 0) {
    width = std::min(width, c.d_model / c.decoder_heads);
  }
  const std::size_t rope = c.attention.find("rope=");
  if (rope == std::string::npos) return width;
  const std::size_t part = std::stoul(c.attention.substr(rope + 5));
  return part > 0 ? std::min(width, part) : width;
}

std::string draw_rotary_turn(Draws& draw, std::size_t d_head) {
  if (draw.once_in(5)) return "none";
  const std::size_t r = 2 * draw.between(1, d_head / 2);
  std::string options = fmt::format("width={}", r);
  switch (draw.below(7)) {
    case 0:
      return "";
    case 1:
      return options + ",scaling=linear,factor=4";
    case 2:
      return options + ",scaling=dynamic,factor=2,original=16";
    case 3:
      return options + ",scaling=yarn,factor=8,original=32,truncate=0";
    case 4:
      return options + ",scaling=llama3,factor=8,original=64";
    case 5: {
      std::string each = "1.5";
      for (std::size_t i = 1; i < r / 2; ++i) each += ";2";
      return options +
             fmt::format(",scaling=longrope,factor=4,original=16,short={},long={}", each, each);
    }
    default:
      return options;
  }
}

std::string draw_flash(Draws& draw, bool places) {
  std::string options = draw.once_in(2) ? "scale=0.3" : "scale=0";
  if (draw.once_in(2)) options += ",cap=2.5";
  if (draw.once_in(2)) options += ",sinks=true";
  if (!places) return "flash:" + options;
  if (draw.once_in(2)) options += fmt::format(",before={}", draw.between(0, 70));
  if (draw.once_in(3)) options += fmt::format(",after={}", draw.between(0, 9));
  const std::size_t kind = draw.below(3);
  if (kind == 1) options += fmt::format(",distances=alibi,slope=0.{}", draw.between(1, 9));
  // All layers of a stack share one table.
  if (kind == 2) options += ",distances=buckets,buckets=8,span=20";
  return "flash:" + options;
}

void draw_exact(Draws& draw, ModelConfig& c) {
  if (draw.once_in(2)) {
    c.attention = draw_flash(draw, true);
    if (draw.once_in(3)) c.attention += "|" + draw_flash(draw, true);
    c.cross_attention = draw_flash(draw, false);
    c.decoder_attention = "";
    c.unpooled_keys = false;
  }
  c.query_norm = draw.of(kQueryNorms);
  c.projection_bias = draw.once_in(2);
  c.output_bias = draw.once_in(2);
  c.feed_forward_bias = draw.once_in(2);
  if (draw.once_in(2)) c.head_width = 2 * draw.between(1, 5);
}

void draw_sides(Draws& draw, ModelCase& sample) {
  ModelConfig& c = sample.config;
  if (c.family != Family::kEncoderDecoder) return;
  if (c.kv_heads == 0 && draw.once_in(2)) {
    c.decoder_heads = draw.between(1, 4);
    const bool divides = c.d_model % (2 * c.decoder_heads) == 0;
    if (!divides && c.head_width == 0) c.head_width = 4;
  }
  if (draw.once_in(2)) c.decoder_d_ff = draw.between(3, 21);
  if (!draw.once_in(2)) return;
  c.max_source_length = draw.between(5, 90);
  sample.shape.source_length = std::min(sample.shape.source_length, c.max_source_length);
}

void draw_wiring(Draws& draw, ModelConfig& c) {
  if (draw.once_in(2) && c.stages.empty()) {
    c.wiring = draw.of(kOtherWirings);
    c.streams = StreamEnd::kMean;
  }
  c.first_norm = c.wiring != Wiring::kPreNorm || draw.once_in(2);
  // The matrices of latent attention are of other shapes than those of its neighbours.
  const bool alike =
      !c.attention.starts_with("latent") || c.attention.find('|') == std::string::npos;
  if (c.stages.empty() && alike && draw.once_in(4)) {
    c.shared_layers = true;
    c.frozen_layers = 0;
  }
  c.norm_weight = !draw.once_in(3);
  c.norm_bias = draw.once_in(2);
}

void draw_widths(Draws& draw, ModelConfig& c) {
  if (draw.once_in(3)) {
    c.embedding_width = draw.between(2, 30);
    c.axial_width = c.axial_width > 0 ? 1 : 0;
    c.embedding_projects_tokens = !c.embedding_scale && draw.once_in(2);
  }
  c.embedding_projection_bias = draw.once_in(2);
  c.decoder_norm_first = draw.once_in(2);
  if (c.positions == PositionKind::kSinusoidal && draw.once_in(2)) {
    c.positions = PositionKind::kSinusoidalHalves;
  }
  if (c.head_transform && draw.once_in(2)) c.output_width = draw.between(2, 30);
  const std::size_t read = c.output_width > 0 ? c.output_width : c.d_model;
  if (read != (c.embedding_width > 0 ? c.embedding_width : c.d_model)) c.tied = false;
}

void draw_outputs(Draws& draw, ModelConfig& c) {
  if (c.head != HeadKind::kPairs && draw.once_in(6)) {
    c.head = HeadKind::kStates;
    c.loss = "squared-error";
    c.pool = draw.once_in(2) ? "mean" : "first";
  }
  c.head_constant_bias = draw.once_in(3);
  c.head_transform_bias = draw.once_in(2);
  c.head_activates = draw.once_in(2);
  if (draw.once_in(2)) c.logit_scale = 0.25F;
  if (draw.once_in(3)) c.logit_cap = 30.0F;
}

}  // namespace

ModelCase sample_released(std::uint64_t n) {
  ModelCase sample = n % 3 == 0 ? sample_guest(n) : sample_model(n);
  ModelConfig& c = sample.config;
  Draws draw(n ^ (std::uint64_t{1} << 62U));
  draw_exact(draw, c);
  draw_sides(draw, sample);
  if (c.positions == PositionKind::kRotary) {
    const std::size_t width = narrowest_turned(c);
    c.rotary = draw_rotary_turn(draw, width);
    if (draw.once_in(2)) c.rotary += "|" + draw_rotary_turn(draw, width);
  }
  draw_wiring(draw, c);
  draw_widths(draw, c);
  draw_outputs(draw, c);
  sample.name = fmt::format("released {} {} {} {}", sample.name, c.wiring, c.head, c.attention);
  return sample;
}

ModelCase sample_stem(std::uint64_t n) {
  ModelCase sample = sample_model(n);
  ModelConfig& c = sample.config;
  BatchShape& shape = sample.shape;
  Draws draw(~n);
  const bool both = c.family == Family::kEncoderDecoder;
  if (!both) {
    c.family = Family::kEncoder;
    c.token_types = 0;
    shape.padded = shape.typed = false;
    if (c.head == HeadKind::kLanguage) {
      c.head = draw.once_in(2) ? "classifier" : "tagger";
      c.classes = draw.between(2, 5);
      c.pool = draw.once_in(2) ? "mean" : "last";
    }
  }
  c.channels = draw.between(1, 4);
  std::size_t& length = both ? shape.source_length : shape.length;
  if (draw.once_in(2)) {
    c.stem = StemKind::kSound;
    if (both && draw.once_in(2)) c.max_source_length = length + draw.below(3);
  } else {
    c.stem = StemKind::kPatches;
    c.patch = draw.between(1, 4);
    const std::size_t side = draw.between(1, 4);
    c.image = side * c.patch;
    c.class_token = draw.once_in(2);
    c.stem_bias = draw.once_in(2);
    length = side * side + (c.class_token ? 1 : 0);
  }
  const bool exact = c.attention == "flash" || c.attention == "full";
  if (exact && draw.once_in(2)) c.attention += ":key_bias=false";
  draw_wiring(draw, c);
  draw_widths(draw, c);
  sample.name += fmt::format(" {} {} {}", c.stem, c.head, c.attention);
  return sample;
}

}  // namespace longspan::testing
