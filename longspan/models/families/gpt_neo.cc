// GPT-Neo (Black et al., 2021): GPT-2 with a window in every other layer and scores that are not
// scaled.
#include <fmt/format.h>

#include "longspan/models/families/biases.h"
#include "longspan/models/families/heads.h"
#include "longspan/models/families/turns.h"

namespace longspan {

namespace gpt_neo_family {

namespace {

// [[["global", "local"], 12], …]: these kinds so many times.
std::vector<std::string> kinds(const ConfigFields& f) {
  std::vector<std::string> all;
  for (const nlohmann::json& part : f.at("attention_types")) {
    require(part.is_array() && part.size() == 2 && part[0].is_array() &&
                part[1].is_number_unsigned() && part[1] <= ModelLimits::kLayers,
            "[{}] attention_types has {}; need [kinds, how often]", ConfigFields::kWho,
            part.dump());
    for (std::size_t i = 0; i < part[1].get<std::size_t>(); ++i) {
      for (const nlohmann::json& kind : part[0]) {
        require(kind == "global" || kind == "local",
                "[{}] attention_types has {}; need global or local", ConfigFields::kWho,
                kind.dump());
        all.push_back(kind.get<std::string>());
      }
    }
  }
  return all;
}

std::string attention(const ConfigFields& f, std::size_t layers) {
  const std::size_t window = f.size("window_size", 256);
  require(window > 0, "[{}] window_size is 0; need 1 or more", ConfigFields::kWho);
  const std::vector<std::string> all = kinds(f);
  require(all.size() == layers, "[{}] attention_types of {} layers; the model has {}",
          ConfigFields::kWho, all.size(), layers);
  std::vector<std::string> turns;
  for (const std::string& kind : all) {
    turns.push_back(kind == "global" ? "flash:scale=1"
                                     : fmt::format("flash:scale=1,before={}", window - 1));
  }
  return in_turn(turns);
}

ModelConfig config(const ConfigFields& f) {
  ModelConfig c;
  c.family = Family::kDecoder;
  c.layers = f.layers("num_layers");
  c.d_model = f.size("hidden_size");
  c.heads = f.size("num_heads");
  c.d_ff = f.size("intermediate_size", 4 * c.d_model);
  c.vocab = f.size("vocab_size");
  c.max_length = f.size("max_position_embeddings");
  c.activation = f.activation("activation_function", "gelu_new");
  c.norm_epsilon = f.number("layer_norm_epsilon", 1e-5);
  c.dropout = f.number("resid_dropout", 0.0);
  c.tied = f.flag("tie_word_embeddings", true);
  c.attention = attention(f, c.layers);
  set_biases({.output = true, .feed_forward = true}, c);
  f.pass_over({"attention_layers", "embed_dropout"});
  return c;
}

void place(Placer& p) {
  p.whole(p.base("wte.weight"), "embedding.tokens");
  p.whole(p.base("wpe.weight"), "embedding.positions");
  for (std::size_t i = 0; i < p.config().layers; ++i) {
    const std::string from = p.source_layer("h", i);
    const std::string attention = from + ".attn.attention";
    const std::string to = p.layer(i);
    p.norm(from + ".ln_1", to + ".attention_norm");
    p.qkv(attention + ".q_proj", attention + ".k_proj", attention + ".v_proj", to + ".attention");
    p.attention_out(attention + ".out_proj", to + ".attention");
    p.norm(from + ".ln_2", to + ".feed_forward_norm");
    p.linear(from + ".mlp.c_fc", to + ".feed_forward.in");
    p.linear(from + ".mlp.c_proj", to + ".feed_forward.out");
  }
  p.norm(p.base("ln_f"), "decoder.norm");
}

constexpr CheckpointHead kHeads[] = {
    {"GPTNeoForCausalLM", &heads::causal, &heads::place_causal},
    {"GPTNeoForSequenceClassification", &heads::last_classifier, &heads::place_score},
    {"GPTNeoModel", &heads::bare, &heads::nothing},
};

}  // namespace

}  // namespace gpt_neo_family

extern const CheckpointFamily kGptNeo{"gpt_neo", "transformer", &gpt_neo_family::config,
                                      &gpt_neo_family::place, gpt_neo_family::kHeads};

}  // namespace longspan
