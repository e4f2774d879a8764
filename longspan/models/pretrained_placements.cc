#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "longspan/base/error.h"
#include "longspan/models/pretrained.h"

namespace longspan {

namespace {

// Collects placements under the names that Model gives its parameters.
class Placer {
 public:
  explicit Placer(const ModelConfig& config) : config_(config) {}

  const ModelConfig& config() const { return config_; }
  std::vector<WeightPlacement> take() { return std::move(list_); }

  void whole(std::string source, std::string parameter) {
    list_.push_back({.source = std::move(source), .parameter = std::move(parameter)});
  }
  void second_name(std::string source, std::string parameter) {
    list_.push_back(
        {.source = std::move(source), .parameter = std::move(parameter), .second_name = true});
  }
  void both(const std::string& source, const std::string& parameter) {
    whole(source + ".weight", parameter + ".weight");
    whole(source + ".bias", parameter + ".bias");
  }
  void norm(const std::string& source, const std::string& parameter) {
    whole(source + ".weight", parameter + ".weight");
    if (config_.norm == NormKind::kLayer) whole(source + ".bias", parameter + ".bias");
  }
  void rows(const std::string& source, const std::string& parameter, std::size_t first,
            std::size_t count, bool attention = false) {
    const bool biased = config_.bias && (!attention || config_.attention_bias);
    for (const char* part : {".weight", ".bias"}) {
      if (part == std::string_view(".bias") && !biased) continue;
      list_.push_back({.source = source + part,
                       .parameter = parameter + part,
                       .first_row = first,
                       .rows = count});
    }
  }
  void linear(const std::string& source, const std::string& parameter) {
    rows(source, parameter, 0, 0);
  }
  void attention_out(const std::string& source, const std::string& attention) {
    rows(source, attention + ".out", 0, 0, /*attention=*/true);
  }
  // Rows of a source that hold rows of several parameters.
  void part(const std::string& source, std::size_t source_row, std::size_t source_rows,
            const std::string& parameter, std::size_t first, std::size_t count) {
    list_.push_back({.source = source,
                     .parameter = parameter,
                     .first_row = first,
                     .rows = count,
                     .source_row = source_row,
                     .source_rows = source_rows});
  }
  void some(const std::string& source, const std::string& parameter, std::size_t first,
            std::size_t count) {
    list_.push_back({.source = source, .parameter = parameter, .first_row = first, .rows = count});
  }
  // A source that is [in, out].
  void transposed(const std::string& source, const std::string& parameter) {
    list_.push_back({.source = source, .parameter = parameter, .transpose = true});
  }
  // GPT-2's Conv1D: y = x·W + b.
  void conv1d(const std::string& source, const std::string& parameter) {
    transposed(source + ".weight", parameter + ".weight");
    whole(source + ".bias", parameter + ".bias");
  }
  void qkv(const std::string& q, const std::string& k, const std::string& v,
           const std::string& attention) {
    const std::size_t d = config_.d_model;
    const std::size_t kv = config_.kv_heads == 0 ? d : d / config_.heads * config_.kv_heads;
    rows(q, attention + ".qkv", 0, d, /*attention=*/true);
    rows(k, attention + ".qkv", d, kv, /*attention=*/true);
    rows(v, attention + ".qkv", d + kv, kv, /*attention=*/true);
  }
  void shared_qkv(const std::string& qk, const std::string& v, const std::string& attention) {
    const std::size_t d = config_.d_model;
    rows(qk, attention + ".qkv", 0, d, /*attention=*/true);
    rows(v, attention + ".qkv", d, d, /*attention=*/true);
  }
  // The output layer's weight: the token table, or its own.
  void output_weight(const std::string& source) {
    if (config_.tied) {
      second_name(source, "embedding.tokens");
    } else {
      whole(source, "head.output.weight");
    }
  }
  // Whether the mechanism is asked for this.
  bool uses(std::string_view text) const {
    return config_.attention.find(text) != std::string::npos;
  }
  std::string layer(std::size_t i) const { return fmt::format("{}.{}", config_.family, i); }

 private:
  const ModelConfig& config_;
  std::vector<WeightPlacement> list_;
};

// Everything of a layer but the projections to queries, keys and values.
void place_bert_layer(Placer& p, const std::string& from, const std::string& to) {
  p.attention_out(from + ".attention.output.dense", to + ".attention");
  p.norm(from + ".attention.output.LayerNorm", to + ".attention_norm");
  p.linear(from + ".intermediate.dense", to + ".feed_forward.in");
  p.linear(from + ".output.dense", to + ".feed_forward.out");
  p.norm(from + ".output.LayerNorm", to + ".feed_forward_norm");
}

void place_bert_layers(Placer& p, const std::string& stack, const std::string& suffix = "") {
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = fmt::format("{}.layer.{}", stack, i);
    const auto part = [&](std::string_view name) {
      return fmt::format("{}.attention.self.{}{}", from, name, suffix);
    };
    p.qkv(part("query"), part("key"), part("value"), p.layer(i) + ".attention");
    place_bert_layer(p, from, p.layer(i));
  }
}

void place_bert_embedding(Placer& p, const std::string& from) {
  p.whole(from + ".word_embeddings.weight", "embedding.tokens");
  if (p.config().positions == PositionKind::kLearned) {
    p.whole(from + ".position_embeddings.weight", "embedding.positions");
  }
  if (p.config().token_types > 0)
    p.whole(from + ".token_type_embeddings.weight", "embedding.types");
  p.norm(from + ".LayerNorm", "embedding.norm");
}

void place_bert(Placer& p) {
  place_bert_embedding(p, "bert.embeddings");
  place_bert_layers(p, "bert.encoder");
}

void place_fnet(Placer& p) {
  place_bert_embedding(p, "fnet.embeddings");
  p.linear("fnet.embeddings.projection", "embedding.projection");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = "fnet.encoder.layer." + std::to_string(i);
    p.norm(from + ".fourier.output.LayerNorm", p.layer(i) + ".mixer_norm");
    p.linear(from + ".intermediate.dense", p.layer(i) + ".feed_forward.in");
    p.linear(from + ".output.dense", p.layer(i) + ".feed_forward.out");
    p.norm(from + ".output.LayerNorm", p.layer(i) + ".feed_forward_norm");
  }
}

void place_longformer(Placer& p) {
  place_bert_embedding(p, "longformer.embeddings");
  place_bert_layers(p, "longformer.encoder");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string self = "longformer.encoder.layer." + std::to_string(i) + ".attention.self";
    const std::string to = p.layer(i) + ".attention.global";
    const std::size_t d = p.config().d_model;
    p.rows(self + ".query_global", to, 0, d);
    p.rows(self + ".key_global", to, d, d);
    p.rows(self + ".value_global", to, 2 * d, d);
  }
}

// A head's rows of q, k and v lie together, and keys have no bias.
void place_deberta(Placer& p) {
  const std::size_t d = p.config().d_model;
  const std::size_t width = d / p.config().heads;
  place_bert_embedding(p, "deberta.embeddings");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = "deberta.encoder.layer." + std::to_string(i);
    const std::string self = from + ".attention.self";
    const std::string to = p.layer(i) + ".attention";
    // Without relative attention queries, keys and values are one matrix with one bias.
    const bool apart = p.uses("content_bias=false");
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
  if (p.uses("deberta")) p.whole("deberta.encoder.rel_embeddings.weight", "encoder.relative");
}

void place_deberta_v2(Placer& p) {
  place_bert_embedding(p, "deberta.embeddings");
  place_bert_layers(p, "deberta.encoder", "_proj");
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

void place_funnel_layer(Placer& p, const std::string& from, const std::string& to) {
  const std::size_t d = p.config().d_model;
  const std::string attention = from + ".attention";
  const std::string ours = to + ".attention";
  p.whole(attention + ".q_head.weight", ours + ".q.weight");
  p.rows(attention + ".k_head", ours + ".kv", 0, d, /*attention=*/true);
  p.rows(attention + ".v_head", ours + ".kv", d, d, /*attention=*/true);
  p.transposed(attention + ".r_kernel", ours + ".relative.weight");
  p.whole(attention + ".r_w_bias", ours + ".relative.u");
  p.whole(attention + ".r_r_bias", ours + ".relative.v");
  p.whole(attention + ".r_s_bias", ours + ".relative.s");
  p.whole(attention + ".seg_embed", ours + ".relative.types");
  p.attention_out(attention + ".post_proj", ours);
  p.norm(attention + ".layer_norm", to + ".attention_norm");
  p.linear(from + ".ffn.linear_1", to + ".feed_forward.in");
  p.linear(from + ".ffn.linear_2", to + ".feed_forward.out");
  p.norm(from + ".ffn.layer_norm", to + ".feed_forward_norm");
}

void place_funnel(Placer& p) {
  p.whole("funnel.embeddings.word_embeddings.weight", "embedding.tokens");
  p.norm("funnel.embeddings.layer_norm", "embedding.norm");
  std::size_t layer = 0;
  const std::vector<std::size_t> stages = layers_of_stages(p.config());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (std::size_t i = 0; i < stages[s]; ++i) {
      place_funnel_layer(p, fmt::format("funnel.encoder.blocks.{}.{}", s, i), p.layer(layer++));
    }
  }
  for (std::size_t i = 0; layer < p.config().layers; ++i) {
    place_funnel_layer(p, fmt::format("funnel.decoder.layers.{}", i), p.layer(layer++));
  }
}

void place_transfo_xl(Placer& p) {
  p.whole("transformer.word_emb.emb_layers.0.weight", "embedding.tokens");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = "transformer.layers." + std::to_string(i);
    const std::string attention = from + ".dec_attn";
    const std::string to = p.layer(i);
    p.whole(attention + ".qkv_net.weight", to + ".attention.qkv.weight");
    p.whole(attention + ".r_net.weight", to + ".attention.relative.weight");
    p.whole(attention + ".r_w_bias", to + ".attention.relative.u");
    p.whole(attention + ".r_r_bias", to + ".attention.relative.v");
    p.attention_out(attention + ".o_net", to + ".attention");
    p.norm(attention + ".layer_norm", to + ".attention_norm");
    p.linear(from + ".pos_ff.CoreNet.0", to + ".feed_forward.in");
    p.linear(from + ".pos_ff.CoreNet.3", to + ".feed_forward.out");
    p.norm(from + ".pos_ff.layer_norm", to + ".feed_forward_norm");
  }
}

void place_reformer(Placer& p) {
  p.whole("reformer.embeddings.word_embeddings.weight", "embedding.tokens");
  if (p.config().positions == PositionKind::kAxial) {
    p.whole("reformer.embeddings.position_embeddings.weights.0", "embedding.axial_rows");
    p.whole("reformer.embeddings.position_embeddings.weights.1", "embedding.axial_columns");
  } else {
    p.whole("reformer.embeddings.position_embeddings.embedding.weight", "embedding.positions");
  }
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = "reformer.encoder.layers." + std::to_string(i);
    const std::string self = from + ".attention.self_attention";
    const std::string to = p.layer(i);
    p.norm(from + ".attention.layer_norm", to + ".attention_norm");
    if (turn_of(p.config().attention, i).starts_with("reformer")) {
      p.shared_qkv(self + ".query_key", self + ".value", to + ".attention");
    } else {
      p.qkv(self + ".query", self + ".key", self + ".value", to + ".attention");
    }
    p.attention_out(from + ".attention.output.dense", to + ".attention");
    p.norm(from + ".feed_forward.layer_norm", to + ".feed_forward_norm");
    p.linear(from + ".feed_forward.dense.dense", to + ".feed_forward.in");
    p.linear(from + ".feed_forward.output.dense", to + ".feed_forward.out");
  }
  p.norm("reformer.encoder.layer_norm", fmt::format("{}.norm", p.config().family));
}

void place_roformer(Placer& p) {
  place_bert_embedding(p, "roformer.embeddings");
  place_bert_layers(p, "roformer.encoder");
}

void place_distilbert(Placer& p) {
  place_bert_embedding(p, "distilbert.embeddings");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = "distilbert.transformer.layer." + std::to_string(i);
    const std::string attention = from + ".attention";
    const std::string to = p.layer(i);
    p.qkv(attention + ".q_lin", attention + ".k_lin", attention + ".v_lin", to + ".attention");
    p.linear(attention + ".out_lin", to + ".attention.out");
    p.norm(from + ".sa_layer_norm", to + ".attention_norm");
    p.linear(from + ".ffn.lin1", to + ".feed_forward.in");
    p.linear(from + ".ffn.lin2", to + ".feed_forward.out");
    p.norm(from + ".output_layer_norm", to + ".feed_forward_norm");
  }
}

void place_gpt2(Placer& p) {
  p.whole("transformer.wte.weight", "embedding.tokens");
  p.whole("transformer.wpe.weight", "embedding.positions");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = "transformer.h." + std::to_string(i);
    const std::string to = p.layer(i);
    p.norm(from + ".ln_1", to + ".attention_norm");
    p.conv1d(from + ".attn.c_attn", to + ".attention.qkv");
    p.conv1d(from + ".attn.c_proj", to + ".attention.out");
    p.norm(from + ".ln_2", to + ".feed_forward_norm");
    p.conv1d(from + ".mlp.c_fc", to + ".feed_forward.in");
    p.conv1d(from + ".mlp.c_proj", to + ".feed_forward.out");
  }
  p.norm("transformer.ln_f", "decoder.norm");
}

void place_llama(Placer& p) {
  p.whole("model.embed_tokens.weight", "embedding.tokens");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = "model.layers." + std::to_string(i);
    const std::string self = from + ".self_attn";
    const std::string to = p.layer(i);
    p.norm(from + ".input_layernorm", to + ".attention_norm");
    p.qkv(self + ".q_proj", self + ".k_proj", self + ".v_proj", to + ".attention");
    p.linear(self + ".o_proj", to + ".attention.out");
    p.norm(from + ".post_attention_layernorm", to + ".feed_forward_norm");
    p.rows(from + ".mlp.gate_proj", to + ".feed_forward.in", 0, p.config().d_ff);
    p.rows(from + ".mlp.up_proj", to + ".feed_forward.in", p.config().d_ff, p.config().d_ff);
    p.linear(from + ".mlp.down_proj", to + ".feed_forward.out");
  }
  p.norm("model.norm", "decoder.norm");
}

void place_llama2c(Placer& p) {
  p.whole("tok_embeddings.weight", "embedding.tokens");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = "layers." + std::to_string(i);
    const std::string attention = from + ".attention";
    const std::string to = p.layer(i);
    p.norm(from + ".attention_norm", to + ".attention_norm");
    p.qkv(attention + ".wq", attention + ".wk", attention + ".wv", to + ".attention");
    p.linear(attention + ".wo", to + ".attention.out");
    p.norm(from + ".ffn_norm", to + ".feed_forward_norm");
    p.rows(from + ".feed_forward.w1", to + ".feed_forward.in", 0, p.config().d_ff);
    p.rows(from + ".feed_forward.w3", to + ".feed_forward.in", p.config().d_ff, p.config().d_ff);
    p.linear(from + ".feed_forward.w2", to + ".feed_forward.out");
  }
  p.norm("norm", "decoder.norm");
}

void place_masked_head(Placer& p) {
  p.both("cls.predictions.transform.dense", "head.transform");
  p.norm("cls.predictions.transform.LayerNorm", "head.norm");
  p.whole("cls.predictions.bias", "head.output.bias");
  p.second_name("cls.predictions.decoder.bias", "head.output.bias");
  p.output_weight("cls.predictions.decoder.weight");
}

void place_fnet_classifier(Placer& p) {
  p.both("fnet.pooler.dense", "head.transform");
  p.both("classifier", "head.output");
}

void place_bert_classifier(Placer& p) {
  p.both("bert.pooler.dense", "head.transform");
  p.both("classifier", "head.output");
}

void place_tagger(Placer& p) { p.both("classifier", "head.output"); }

void place_distilbert_masked_head(Placer& p) {
  p.both("vocab_transform", "head.transform");
  p.norm("vocab_layer_norm", "head.norm");
  p.whole("vocab_projector.bias", "head.output.bias");
  p.output_weight("vocab_projector.weight");
}

void place_distilbert_classifier(Placer& p) {
  p.both("pre_classifier", "head.transform");
  p.both("classifier", "head.output");
}

void place_roformer_classifier(Placer& p) {
  p.both("classifier.dense", "head.transform");
  p.both("classifier.out_proj", "head.output");
}

void place_longformer_masked_head(Placer& p) {
  p.both("lm_head.dense", "head.transform");
  p.norm("lm_head.layer_norm", "head.norm");
  p.whole("lm_head.bias", "head.output.bias");
  p.second_name("lm_head.decoder.bias", "head.output.bias");
  p.output_weight("lm_head.decoder.weight");
}

void place_reformer_head(Placer& p) {
  p.whole("lm_head.decoder.weight", "head.output.weight");
  p.whole("lm_head.bias", "head.output.bias");
  p.second_name("lm_head.decoder.bias", "head.output.bias");
}

void place_transfo_xl_head(Placer& p) {
  p.output_weight("crit.out_layers.0.weight");
  p.whole("crit.out_layers.0.bias", "head.output.bias");
}

void place_funnel_masked_head(Placer& p) {
  p.output_weight("lm_head.weight");
  p.whole("lm_head.bias", "head.output.bias");
}

void place_causal_head(Placer& p) { p.output_weight("lm_head.weight"); }

void place_llama2c_head(Placer& p) { p.output_weight("output.weight"); }

struct Naming {
  std::string_view architecture;
  void (*body)(Placer& p);
  void (*head)(Placer& p);
};

constexpr std::array<Naming, 20> kNamings = {{
    {"BertForMaskedLM", &place_bert, &place_masked_head},
    {"BertForSequenceClassification", &place_bert, &place_bert_classifier},
    {"DistilBertForMaskedLM", &place_distilbert, &place_distilbert_masked_head},
    {"DistilBertForSequenceClassification", &place_distilbert, &place_distilbert_classifier},
    {"FNetForMaskedLM", &place_fnet, &place_masked_head},
    {"FNetForSequenceClassification", &place_fnet, &place_fnet_classifier},
    {"RoFormerForMaskedLM", &place_roformer, &place_masked_head},
    {"RoFormerForSequenceClassification", &place_roformer, &place_roformer_classifier},
    {"BigBirdForMaskedLM", &place_bert, &place_masked_head},
    {"BigBirdForSequenceClassification", &place_bert, &place_roformer_classifier},
    {"LongformerForMaskedLM", &place_longformer, &place_longformer_masked_head},
    {"ReformerModelWithLMHead", &place_reformer, &place_reformer_head},
    {"DebertaForMaskedLM", &place_deberta, &place_masked_head},
    {"DebertaV2ForMaskedLM", &place_deberta_v2, &place_masked_head},
    {"DebertaV2ForTokenClassification", &place_deberta_v2, &place_tagger},
    {"FunnelForMaskedLM", &place_funnel, &place_funnel_masked_head},
    {"TransfoXLLMHeadModel", &place_transfo_xl, &place_transfo_xl_head},
    {"GPT2LMHeadModel", &place_gpt2, &place_causal_head},
    {"LlamaForCausalLM", &place_llama, &place_causal_head},
    {"Transformer", &place_llama2c, &place_llama2c_head},
}};

}  // namespace

std::vector<WeightPlacement> placements(const nlohmann::json& hf) {
  const ModelConfig config = config_from_hugging_face(hf);
  const std::string architecture = architecture_of(hf);
  const auto* const naming = std::ranges::find(kNamings, architecture, &Naming::architecture);
  require(naming != kNamings.end(), "[pretrained] the tensors of {} have no names here",
          architecture);
  Placer placer(config);
  naming->body(placer);
  naming->head(placer);
  return placer.take();
}

}  // namespace longspan
