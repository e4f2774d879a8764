// XLNet (Yang et al., 2019, arXiv:1906.08237): its content stream, which sees both sides.
#include "longspan/models/families/bert_like.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace xlnet_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  constexpr std::size_t kLongest = 512;  // of its training; its distances have no end
  ModelConfig c = post_norm_encoder();
  c.head_transform = false;
  c.embedding_norm = false;
  c.layers = f.layers("n_layer");
  c.d_model = f.size("d_model");
  c.heads = f.size("n_head");
  c.d_ff = f.size("d_inner");
  c.vocab = f.size("vocab_size");
  c.max_length = kLongest;
  c.positions = PositionKind::kNone;
  c.activation = f.activation("ff_activation", "gelu");
  c.norm_epsilon = f.number("layer_norm_eps", 1e-12);
  c.dropout = f.number("dropout", 0.1);
  c.token_types = 4;
  c.stored_numbers = c.d_model;  // the vector of a masked token, for its training
  c.embedding_types = false;
  c.padding_token = -1;
  c.tied = f.flag("tie_word_embeddings", true);
  c.attention = "funnel:cls=false,joker=false";
  c.projection_bias = false;
  c.output_bias = false;
  f.refuse(f.text("attn_type", "bi") != "bi", "attention to what comes before alone");
  f.refuse(!f.flag("untie_r", true), "biases that all layers share");
  f.refuse(f.flag("same_length", false), "the same number of keys for every query");
  f.refuse(f.has("clamp_len") && f.at("clamp_len").is_number() && f.at("clamp_len") > 0,
           "distances that are cut off");
  f.refuse(f.size("d_head", c.d_model / std::max<std::size_t>(1, c.heads)) * c.heads != c.d_model,
           "heads of another width");
  f.pass_over({"mem_len", "reuse_len", "bi_data", "clamp_len", "start_n_top", "end_n_top",
               "use_mems_eval", "use_mems_train", "dropatt", "initializer_range", "pad_token_id"});
  return c;
}

void place_layer(Placer& p, std::size_t i) {
  const std::string from = p.source_layer("layer", i);
  const std::string attention = from + ".rel_attn";
  const std::string to = p.layer(i);
  const std::string ours = to + ".attention";
  const std::size_t d = p.config().d_model;
  p.transposed(attention + ".q", ours + ".q.weight");
  p.transposed_rows(attention + ".k", ours + ".kv.weight", 0, d);
  p.transposed_rows(attention + ".v", ours + ".kv.weight", d, d);
  p.transposed(attention + ".r", ours + ".relative.weight");
  p.whole(attention + ".o", ours + ".out.weight");
  p.whole(attention + ".r_w_bias", ours + ".relative.u");
  p.whole(attention + ".r_r_bias", ours + ".relative.v");
  p.whole(attention + ".r_s_bias", ours + ".relative.s");
  // Its first row is for tokens of one segment, our second.
  for (std::size_t row = 0; row < 2; ++row) {
    p.slice(attention + ".seg_embed", ours + ".relative.types", row, 1,
            {.shape = {2, d}, .first = (1 - row) * d, .row_step = d, .column_step = 1});
  }
  p.norm(attention + ".layer_norm", to + ".attention_norm");
  p.linear(from + ".ff.layer_1", to + ".feed_forward.in");
  p.linear(from + ".ff.layer_2", to + ".feed_forward.out");
  p.norm(from + ".ff.layer_norm", to + ".feed_forward_norm");
}

void place(Placer& p) {
  p.whole(p.base("word_embedding.weight"), "embedding.tokens");
  for (std::size_t i = 0; i < p.config().layers; ++i) place_layer(p, i);
}

void language(const ConfigFields& f, ModelConfig& c) {
  heads::causal(f, c);
  c.head_bias = true;
}

void place_language(Placer& p) {
  p.output_weight("lm_loss.weight");
  p.whole("lm_loss.bias", "head.output.bias");
}

constexpr CheckpointHead kHeads[] = {
    {"XLNetLMHeadModel", &language, &place_language},
    {"XLNetModel", &heads::bare, &heads::nothing},
    {"XLNetForTokenClassification", &heads::tagger, &heads::place_tagger},
    {"XLNetForQuestionAnsweringSimple", &heads::answers, &heads::place_answers},
};

}  // namespace

}  // namespace xlnet_family

extern const CheckpointFamily kXlnet{"xlnet", "transformer", &xlnet_family::config,
                                     &xlnet_family::place, xlnet_family::kHeads};

}  // namespace longspan
