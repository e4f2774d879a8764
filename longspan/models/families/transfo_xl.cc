// Transformer-XL (Dai et al., 2019, arXiv:1901.02860).
#include "longspan/models/families/heads.h"

namespace longspan {

namespace transfo_xl_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  constexpr std::size_t kLongest = std::size_t{1} << 16U;  // its positions have no end
  ModelConfig c;
  c.family = Family::kDecoder;
  c.wiring = Wiring::kPostNorm;
  c.layers = f.layers("n_layer");
  c.d_model = f.size("d_model");
  c.heads = f.size("n_head");
  c.d_ff = f.size("d_inner");
  c.vocab = f.size("vocab_size");
  c.max_length = kLongest;
  c.activation = Activation::kRelu;
  c.positions = PositionKind::kNone;
  c.attention = "transformer-xl";
  c.attention_bias = false;
  c.embedding_scale = true;
  c.norm_epsilon = f.number("layer_norm_epsilon", 1e-5);
  c.dropout = f.number("dropout", 0.1);
  c.init_deviation = f.number("init_std", 0.02);
  c.tied = f.flag("tie_word_embeddings", true);
  c.head_bias = true;
  f.refuse(f.has("cutoffs") && !f.at("cutoffs").empty(), "an adaptive softmax");
  f.refuse(f.size("d_embed", c.d_model) != c.d_model, "an embedding of another width");
  f.refuse(c.heads > 0 && f.size("d_head", c.d_model / c.heads) * c.heads != c.d_model,
           "heads of another width");
  f.refuse(f.flag("pre_lnorm", false), "a norm before the history's projection");
  f.refuse(f.flag("same_length", false), "the same number of keys for every query");
  f.refuse(!f.flag("untie_r", true), "biases that all layers share");
  f.pass_over({"adaptive", "tie_projs", "div_val", "mem_len", "clamp_len", "sample_softmax",
               "dropatt", "init", "init_range", "proj_init_std", "proj_share_all_but_first",
               "eval_batch", "tgt_len", "ext_len"});
  f.refuse(f.size("attn_type", 0) != 0, "another kind of relative positions");
  return c;
}

void place(Placer& p) {
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

void place_head(Placer& p) {
  p.output_weight("crit.out_layers.0.weight");
  p.whole("crit.out_layers.0.bias", "head.output.bias");
}

constexpr CheckpointHead kHeads[] = {
    {"TransfoXLLMHeadModel", &heads::causal, &place_head},
};

}  // namespace

}  // namespace transfo_xl_family

extern const CheckpointFamily kTransfoXl{"transfo-xl", "transformer", &transfo_xl_family::config,
                                         &transfo_xl_family::place, transfo_xl_family::kHeads};

}  // namespace longspan
