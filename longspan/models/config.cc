#include "longspan/models/config.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "longspan/base/config.h"
#include "longspan/base/sizes.h"
#include "longspan/layers/branches.h"
#include "longspan/layers/loss.h"

namespace longspan {

namespace {

void check_positive(std::string_view what, std::size_t value) {
  require(value > 0, "[model] {} is 0; need at least 1", what);
}

void check_positive(std::string_view what, float value) {
  require(value > 0.0F && std::isfinite(value), "[model] {} is {}; need a positive number", what,
          value);
}

std::size_t limit_of(std::string_view field) {
  if (field == "layers" || field == "decoder_layers" || field == "frozen_layers") {
    return ModelLimits::kLayers;
  }
  const bool of_length = field == "max_length" || field == "max_source_length";
  return of_length ? ModelLimits::kLength : ModelLimits::kWidth;
}

// Every field, so that a new one has a limit too.
void check_limits(ModelConfig c) {
  c.visit([](std::string_view name, const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::same_as<Field, std::size_t>) {
      require(field <= limit_of(name), "[model] {} is {}; need at most {}", name, field,
              limit_of(name));
    } else if constexpr (std::same_as<Field, std::string>) {
      const auto turns = 1 + static_cast<std::size_t>(std::ranges::count(field, '|'));
      require(field.size() <= ModelLimits::kText && turns <= ModelLimits::kLayers,
              "[model] {} has {} characters and {} parts; need at most {} and {}", name,
              field.size(), turns, ModelLimits::kText, ModelLimits::kLayers);
    }
  });
  require(std::in_range<std::int32_t>(c.padding_token),
          "[model] padding_token is {}; need a token, or -1 for none", c.padding_token);
}

void check_stages(const ModelConfig& c) {
  const std::vector<std::size_t> stages = layers_of_stages(c);
  if (stages.empty()) return;
  require(stages.size() > 1,
          "[model] one stage of {} layers; need two or more, as in 4|4, with a pool between them",
          c.stages);
  std::size_t left = c.layers;
  for (const std::size_t layers : stages) {
    require(layers < left,
            "[model] the stages {} leave no layer behind them in a model of {} layers; need more "
            "layers, or fewer in the stages",
            c.stages, c.layers);
    left -= layers;
  }
  require(c.family == Family::kEncoder && c.wiring == Wiring::kPostNorm && !c.checkpointing &&
              c.frozen_layers == 0,
          "[model] stages in a {} with {} wiring; need an encoder with post wiring that is neither "
          "checkpointed nor frozen",
          c.family, c.wiring);
}

void check_stem(const ModelConfig& c) {
  require(c.max_source_length == 0 || c.family == Family::kEncoderDecoder,
          "[model] max_source_length={} of a {}; need an encoder-decoder", c.max_source_length,
          c.family);
  if (c.stem == StemKind::kTokens) return;
  require(c.family == Family::kEncoder || c.family == Family::kEncoderDecoder,
          "[model] a stem of {} on a {}; need an encoder", c.stem, c.family);
  require(c.family == Family::kEncoderDecoder ||
              (c.head != HeadKind::kLanguage && c.pool != Pool::kLargest &&
               c.positions != PositionKind::kTemporal),
          "[model] a {} head with pool={} and {} positions behind a stem of {}, which reads no "
          "tokens; need a head of classes or states",
          c.head, c.pool, c.positions, c.stem);
  check_positive("channels", c.channels);
  if (c.stem != StemKind::kPatches) return;
  check_positive("patch", c.patch);
  require(c.image >= c.patch && c.image % c.patch == 0,
          "[model] an image of {} in patches of {}; need whole patches", c.image, c.patch);
  require(size_product(c.channels, size_product(c.image, c.image)) <= ModelLimits::kLength,
          "[model] an image of {} channels of {}×{}; need at most {} numbers", c.channels, c.image,
          c.image, ModelLimits::kLength);
  const std::size_t side = c.image / c.patch;
  const std::size_t rows = side * side + (c.class_token ? 1 : 0);
  require(rows <= longest_source(c), "[model] an image of {} rows; max_length is {}", rows,
          longest_source(c));
}

// What differs from the width of the model, and what only some wirings have.
void check_widths(const ModelConfig& c) {
  const std::size_t embedded = c.embedding_width == 0 ? c.d_model : c.embedding_width;
  const std::size_t read = c.output_width == 0 ? c.d_model : c.output_width;
  const bool shares = c.tied && c.head == HeadKind::kLanguage && c.streams == StreamEnd::kMean;
  require(!shares || embedded == read,
          "[model] outputs are taken at a width of {} by a table of {}; need equal widths, or "
          "tied=false",
          read, embedded);
  require(read == c.d_model || c.head_transform,
          "[model] output_width={} without a transform of the head; need head_transform", read);
  require(c.first_norm || c.wiring == Wiring::kPreNorm,
          "[model] first_norm=false with {} wiring; need pre", c.wiring);
  require(!c.shared_layers || c.frozen_layers == 0,
          "[model] {} frozen layers, and all share their weights; need none", c.frozen_layers);
  require(c.logit_scale > 0.0F && std::isfinite(c.logit_scale),
          "[model] logit_scale is {}; need a positive number", c.logit_scale);
  require(c.logit_cap >= 0.0F && std::isfinite(c.logit_cap),
          "[model] logit_cap is {}; need a number of 0 or more", c.logit_cap);
}

}  // namespace

std::string turn_of(const std::string& specification, std::size_t layer) {
  const std::vector<std::string> turns = split_list(specification, '|');
  return turns[layer % turns.size()];
}

bool attends(const ModelConfig& config) {
  return std::ranges::any_of(split_list(config.attention, '|'), [](const std::string& layer) {
    const BranchKind* branch = find_branch(layer);
    return branch == nullptr || branch->heads;  // a mechanism, or like one
  });
}

std::vector<std::size_t> layers_of_stages(const ModelConfig& config) {
  std::vector<std::size_t> layers;
  if (config.stages.empty()) return layers;
  for (const std::string& part : split_list(config.stages, '|')) {
    const std::int64_t count = parse_integer("model", "stages", part);
    require(count > 0, "[model] a stage of {} layers in {}; need at least 1 in each", count,
            config.stages);
    layers.push_back(static_cast<std::size_t>(count));
  }
  return layers;
}

void check(const ModelConfig& c) {
  check_limits(c);
  const std::unique_ptr<Loss> loss = make_loss(c.loss);
  require(loss->classifies() || c.head != HeadKind::kLanguage,
          "[model] the loss {} of a language model; need a classifier or tagger head", c.loss);
  require(!loss->classifies() || c.head != HeadKind::kStates,
          "[model] the loss {} of hidden states, which are no classes; need squared-error", c.loss);
  require(!loss->places() || c.head == HeadKind::kTagger,
          "[model] the loss {} with a {} head; need a tagger, whose outputs are of tokens", c.loss,
          c.head);
  require(loss->outputs() == 0 || c.outputs() == loss->outputs(),
          "[model] the loss {} of {} outputs; need classes={}", c.loss, c.outputs(),
          loss->outputs());
  require(!loss->reads_states() || c.head == HeadKind::kLanguage || c.head == HeadKind::kTagger,
          "[model] the loss {} with a {} head, whose outputs are not of tokens; need a language or "
          "tagger head, or hidden_weight=0",
          c.loss, c.head);
  check_positive("layers", c.layers);
  check_positive("d_model", c.d_model);
  check_positive("heads", c.heads);
  check_positive("vocab", c.vocab);
  check_positive("max_length", c.max_length);
  if (c.family == Family::kEncoderDecoder) check_positive("decoder_layers", c.decoder_layers);
  if (c.head != HeadKind::kLanguage && c.head != HeadKind::kStates) {
    check_positive("classes", c.classes);
  }
  require(c.head == HeadKind::kLanguage || c.head == HeadKind::kStates ||
              c.family == Family::kEncoder || c.family == Family::kPerceptron ||
              (c.head == HeadKind::kTagger && c.family == Family::kDecoder) ||
              (c.head == HeadKind::kClassifier && c.family == Family::kDecoder &&
               c.pool != Pool::kFirst),
          "[model] a {} head on a {}; need an encoder", c.head, c.family);
  require(c.head != HeadKind::kPairs || (!c.head_transform && !c.head_norm),
          "[model] head_transform or head_norm with a head of pairs, which has layers of its own; "
          "need neither");
  require(c.positions != PositionKind::kTemporal || c.family != Family::kEncoderDecoder,
          "[model] temporal positions of two sequences; need an encoder or a decoder");
  if (c.family == Family::kPerceptron) {
    check_positive("inputs", c.inputs);
    require(c.head == HeadKind::kClassifier && c.frozen_layers == 0 && c.lora_rank == 0,
            "[model] a perceptron with a {} head, {} frozen layers and adapters of rank {}; need a "
            "classifier that is trained as a whole",
            c.head, c.frozen_layers, c.lora_rank);
  }
  require(c.pair_classes == 0 || (c.head == HeadKind::kLanguage && c.family == Family::kEncoder),
          "[model] pair_classes={} beside a {} head of a {}; need a language head of an encoder",
          c.pair_classes, c.head, c.family);
  check_stem(c);
  check_stages(c);
  require(
      c.streams == StreamEnd::kMean ||
          (c.wiring == Wiring::kReversible && c.family != Family::kEncoderDecoder &&
           (!c.tied || c.head != HeadKind::kLanguage)),
      "[model] concatenated streams end twice as wide; need reversible wiring, one stack and an "
      "untied head");
  require(c.family == Family::kPerceptron || c.head_width > 0 || c.d_model % c.heads == 0,
          "[model] width {} does not divide into {} heads; need a multiple, or head_width",
          c.d_model, c.heads);
  check_widths(c);
  require(c.kv_heads == 0 || c.heads % c.kv_heads == 0,
          "[model] {} heads cannot share {} key-value heads; need a divisor", c.heads, c.kv_heads);
  require(c.dropout >= 0.0F && c.dropout < 1.0F, "[model] dropout is {}; need 0 ≤ dropout < 1",
          c.dropout);
  require(c.frozen_layers <= c.layers, "[model] {} frozen layers of {}; need at most all of them",
          c.frozen_layers, c.layers);
  require(
      c.wiring != Wiring::kReversible || (!c.checkpointing && c.frozen_layers == 0),
      "[model] reversible layers keep nothing and cannot be frozen or checkpointed; need pre or "
      "post wiring");
  require(c.lora_rank <= c.d_model, "[model] adapters of rank {} on a width of {}; need at most {}",
          c.lora_rank, c.d_model, c.d_model);
  check_positive("lora_alpha", c.lora_alpha);
  check_positive("norm_epsilon", c.norm_epsilon);
  check_positive("rotary_base", c.rotary_base);
  require(c.init_deviation >= 0.0F && std::isfinite(c.init_deviation),
          "[model] init_deviation is {}; need a number of 0 or more", c.init_deviation);
}

}  // namespace longspan
