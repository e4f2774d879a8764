// The checkpoints of llama2.c, with the names of its ModelArgs.
#include "longspan/models/families/biases.h"
#include "longspan/models/families/heads.h"

namespace longspan {

namespace llama2c_family {

namespace {

ModelConfig config(const ConfigFields& f) {
  ModelConfig c;
  c.family = Family::kDecoder;
  c.norm = NormKind::kRms;
  c.activation = Activation::kSilu;
  c.gated = true;
  set_biases({}, c);
  c.positions = PositionKind::kRotary;
  c.layers = f.layers("n_layers");
  c.d_model = f.size("dim");
  c.heads = f.size("n_heads");
  c.kv_heads = f.size("n_kv_heads", c.heads);
  c.d_ff = f.size("hidden_dim");
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_seq_len");
  c.norm_epsilon = f.number("norm_eps", 1e-5);
  c.rotary_base = f.number("rope_theta", 10000.0);
  c.tied = f.flag("tie_word_embeddings", true);
  f.pass_over({"multiple_of"});
  return c;
}

void place(Placer& p) {
  p.whole("tok_embeddings.weight", "embedding.tokens");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("layers", i);
    const std::string attention = from + ".attention";
    const std::string to = p.layer(i);
    p.norm(from + ".attention_norm", to + ".attention_norm");
    p.qkv(attention + ".wq", attention + ".wk", attention + ".wv", to + ".attention");
    p.attention_out(attention + ".wo", to + ".attention");
    p.norm(from + ".ffn_norm", to + ".feed_forward_norm");
    p.gated(from + ".feed_forward.w1", from + ".feed_forward.w3", to + ".feed_forward");
    p.linear(from + ".feed_forward.w2", to + ".feed_forward.out");
  }
  p.norm("norm", "decoder.norm");
}

void place_output(Placer& p) { p.output_weight("output.weight"); }

constexpr CheckpointHead kHeads[] = {{"Transformer", &heads::causal, &place_output}};

}  // namespace

}  // namespace llama2c_family

extern const CheckpointFamily kLlama2c{"llama2c", "", &llama2c_family::config,
                                       &llama2c_family::place, llama2c_family::kHeads};

}  // namespace longspan
