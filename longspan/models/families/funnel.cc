// Funnel-Transformer (Dai et al., 2020, arXiv:2006.03236).
#include <fmt/format.h>

#include <algorithm>

#include "longspan/models/families/bert_like.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace funnel_family {

namespace {

// Attention is told of the types of tokens, the embedding is not. Its two kinds of relative attention
// are the same sums in another order.
ModelConfig config(const ConfigFields& f) {
  ModelConfig c = post_norm_encoder();
  std::vector<std::size_t> sizes = {4, 4, 4};
  if (f.has("block_sizes")) sizes = f.sizes("block_sizes");
  c.layers = f.size("num_decoder_layers", 2);
  for (const std::size_t size : sizes) {
    c.stages += (c.stages.empty() ? "" : "|") + std::to_string(size);
    c.layers += size;
  }
  c.stage_pool = f.text("pooling_type", "mean");
  c.stage_cls = f.flag("separate_cls", true);
  c.stage_truncate = f.flag("truncate_seq", true);
  c.unpooled_keys = f.flag("pool_q_only", true);
  c.attention = fmt::format("funnel:cls={}", c.stage_cls);
  c.d_model = f.size("d_model", 768);
  c.heads = f.size("n_head", 12);
  c.d_ff = f.size("d_inner", 3072);
  c.vocab = f.size("vocab_size", 30522);
  c.max_length = f.size("max_position_embeddings", 512);
  c.token_types = f.size("type_vocab_size", 3);
  c.embedding_types = false;
  c.positions = PositionKind::kNone;
  c.activation = f.activation("hidden_act", "gelu_new");
  c.norm_epsilon = f.number("layer_norm_eps", 1e-9);
  c.dropout = f.number("hidden_dropout", 0.1);
  c.init_deviation = f.number("initializer_range", 0.1);
  c.padding_token = f.token("pad_token_id");
  c.tied = f.flag("tie_word_embeddings", true);
  f.pass_over({"rel_attn_type", "attention_type", "initializer_std", "num_classes",
               "num_hidden_layers", "num_attention_heads", "hidden_size", "num_blocks"});
  f.refuse(f.size("d_head", 64) * c.heads != c.d_model, "heads that are not as wide as the model");
  if (f.has("block_repeats")) {
    const std::vector<std::size_t> repeats = f.sizes("block_repeats");
    f.refuse(std::ranges::any_of(repeats, [](std::size_t n) { return n != 1; }),
             "layers that are run again");
  }
  return c;
}

void place_funnel_layer(Placer& p, const std::string& from, const std::string& to) {
  const std::size_t d = p.config().d_model;
  const std::string attention = from + ".attention";
  const std::string ours = to + ".attention";
  p.whole(attention + ".q_head.weight", ours + ".q.weight");
  p.rows(attention + ".k_head", ours + ".kv", 0, d, BiasOf::kProjections);
  p.rows(attention + ".v_head", ours + ".kv", d, d, BiasOf::kProjections);
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

void place(Placer& p) {
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

void masked(const ConfigFields& /*f*/, ModelConfig& c) {
  c.head = HeadKind::kLanguage;
  c.head_transform = false;
}

void place_masked(Placer& p) {
  p.output_weight("lm_head.weight");
  p.whole("lm_head.bias", "head.output.bias");
}

constexpr CheckpointHead kHeads[] = {
    {"FunnelModel", &heads::bare, &heads::nothing},
    {"FunnelForMaskedLM", &masked, &place_masked},
    {"FunnelForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"FunnelForQuestionAnswering", &heads::answers, &heads::place_answers},
};

}  // namespace

}  // namespace funnel_family

extern const CheckpointFamily kFunnel{"funnel", "funnel", &funnel_family::config,
                                      &funnel_family::place, funnel_family::kHeads};

}  // namespace longspan
