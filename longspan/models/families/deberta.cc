// DeBERTa v1 to v3 (He et al., 2021, arXiv:2006.03654; arXiv:2111.09543).
#include <fmt/format.h>

#include <algorithm>

#include "longspan/models/families/bert_like.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace deberta_family {

namespace {

// A list, or one text with the parts joined by |.
bool has_part(const ConfigFields& f, const char* key, std::string_view part) {
  if (!f.has(key)) return false;
  const nlohmann::json& value = f.at(key);
  if (value.is_string()) return value.get<std::string>().find(part) != std::string::npos;
  require(value.is_array(), "[{}] {} is {}; need a list", ConfigFields::kWho, key, value.dump());
  return std::ranges::find(value, nlohmann::json(part)) != value.end();
}

// The largest distance that is told apart.
std::size_t span(const ConfigFields& f, const ModelConfig& c) {
  if (!f.has("max_relative_positions")) return c.max_length;
  const nlohmann::json& value = f.at("max_relative_positions");
  return value.is_number_integer() && value < 1 ? c.max_length : f.size("max_relative_positions");
}

ModelConfig body(const ConfigFields& f) {
  ModelConfig c = bert_config(f, {});
  c.token_types = f.size("type_vocab_size", 0);
  c.norm_epsilon = f.number("layer_norm_eps", 1e-7);
  c.embedding_mask = true;
  if (!f.flag("position_biased_input", true)) c.positions = PositionKind::kNone;
  f.refuse(f.size("embedding_size", c.d_model) != c.d_model, "an embedding of another width");
  f.refuse(f.size("conv_kernel_size", 0) > 0, "a convolution beside the first layer");
  f.refuse(has_part(f, "pos_att_type", "p2p"), "attention of positions to positions");
  f.refuse(c.heads > 0 && f.size("attention_head_size", c.d_model / c.heads) * c.heads != c.d_model,
           "heads of another width");
  f.refuse(!f.flag("legacy", true), "the newer head of masked tokens");
  f.pass_over({"padding_idx", "pooler_size", "max_relative_positions", "position_buckets",
               "share_att_key", "norm_rel_ebd", "pos_att_type", "summary_type",
               "relative_attention"});
  f.pass_over(
      {"pooler_hidden_act", "pooler_hidden_size", "pooler_dropout", "conv_act", "talking_head"});
  return c;
}

std::string mechanism(const ConfigFields& f, const ModelConfig& c) {
  return fmt::format("deberta:span={},c2p={},p2c={}", span(f, c),
                     has_part(f, "pos_att_type", "c2p"), has_part(f, "pos_att_type", "p2c"));
}

ModelConfig config_v1(const ConfigFields& f) {
  ModelConfig c = body(f);
  if (f.flag("relative_attention", false)) {
    c.attention = mechanism(f, c) + ",content_bias=false";
  } else {
    c.attention = "flash:key_bias=false";
  }
  f.refuse(f.flag("talking_head", false), "talking heads");
  return c;
}

ModelConfig config_v2(const ConfigFields& f) {
  ModelConfig c = body(f);
  if (!f.flag("relative_attention", false)) return c;
  const bool bucketed = f.has("position_buckets") && f.at("position_buckets") > 0;
  c.attention =
      mechanism(f, c) +
      fmt::format(",buckets={},share={},key_bias=true,norm={},epsilon={}",
                  bucketed ? f.size("position_buckets") : 0, f.flag("share_att_key", false),
                  f.text("norm_rel_ebd", "none").find("layer_norm") != std::string::npos,
                  c.norm_epsilon);
  return c;
}

// A head's rows of q, k and v lie together, and keys have no bias.
void place_v1(Placer& p) {
  const std::size_t d = p.config().d_model;
  const std::size_t width = d / p.config().heads;
  place_bert_embedding(p);
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = "deberta.encoder.layer." + std::to_string(i);
    const std::string self = from + ".attention.self";
    const std::string to = p.layer(i) + ".attention";
    const bool apart = p.uses("content_bias=false") || p.uses("key_bias=false");
    const std::string qv = to + (apart ? ".qv" : ".qkv");
    const std::size_t v_row = apart ? d : 2 * d;
    for (std::size_t head = 0; head < p.config().heads; ++head) {
      const auto place = [&](std::size_t which, const std::string& parameter, std::size_t first) {
        p.part(self + ".in_proj.weight", (3 * head + which) * width, 3 * d, parameter,
               first + head * width, width);
      };
      place(0, qv + ".weight", 0);
      place(1, apart ? to + ".k.weight" : qv + ".weight", apart ? 0 : d);
      place(2, qv + ".weight", v_row);
    }
    p.some(self + ".q_bias", qv + ".bias", 0, d);
    if (!apart) p.some("", qv + ".bias", d, d);
    p.some(self + ".v_bias", qv + ".bias", v_row, d);
    if (p.uses("c2p=true")) p.whole(self + ".pos_proj.weight", to + ".position_key.weight");
    if (p.uses("p2c=true")) p.both(self + ".pos_q_proj", to + ".position_query");
    place_bert_layer(p, from, p.layer(i));
  }
  if (p.uses("deberta:")) p.whole("deberta.encoder.rel_embeddings.weight", "encoder.relative");
}

void place_v2(Placer& p) {
  place_bert_embedding(p);
  place_bert_layers(p, "_proj");
  if (!p.uses("deberta")) return;
  p.whole("deberta.encoder.rel_embeddings.weight", "encoder.relative");
  if (p.uses("norm=true")) {
    p.whole("deberta.encoder.LayerNorm.weight", "encoder.relative_norm.gamma");
    p.whole("deberta.encoder.LayerNorm.bias", "encoder.relative_norm.beta");
  }
  if (p.uses("share=true")) return;
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string self = "deberta.encoder.layer." + std::to_string(i) + ".attention.self";
    const std::string to = p.layer(i) + ".attention";
    if (p.uses("c2p=true")) p.both(self + ".pos_key_proj", to + ".position_key");
    if (p.uses("p2c=true")) p.both(self + ".pos_query_proj", to + ".position_query");
  }
}

// A transform of the first token, by an activation of its own.
void classifier(const ConfigFields& f, ModelConfig& c) {
  heads::classifier(f, c);
  c.head_activation = f.activation("pooler_hidden_act", "gelu");
  f.refuse(f.size("pooler_hidden_size", c.d_model) != c.d_model, "a pooler of another width");
}

void place_classifier(Placer& p) {
  p.both("pooler.dense", "head.transform");
  p.both("classifier", "head.output");
}

constexpr CheckpointHead kHeadsV1[] = {
    {"DebertaModel", &heads::bare, &heads::nothing},
    {"DebertaForMaskedLM", &heads::masked, &heads::place_masked},
    {"DebertaForSequenceClassification", &classifier, &place_classifier},
    {"DebertaForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"DebertaForQuestionAnswering", &heads::answers, &heads::place_answers},
};
constexpr CheckpointHead kHeadsV2[] = {
    {"DebertaV2Model", &heads::bare, &heads::nothing},
    {"DebertaV2ForMaskedLM", &heads::masked, &heads::place_masked},
    {"DebertaV2ForSequenceClassification", &classifier, &place_classifier},
    {"DebertaV2ForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"DebertaV2ForQuestionAnswering", &heads::answers, &heads::place_answers},
};

}  // namespace

}  // namespace deberta_family

extern const CheckpointFamily kDeberta{"deberta", "deberta", &deberta_family::config_v1,
                                       &deberta_family::place_v1, deberta_family::kHeadsV1};
extern const CheckpointFamily kDebertaV2{"deberta-v2", "deberta", &deberta_family::config_v2,
                                         &deberta_family::place_v2, deberta_family::kHeadsV2};

}  // namespace longspan
