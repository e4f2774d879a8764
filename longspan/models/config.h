// A model as a value. Everything about its structure is here; weights are not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "longspan/base/model_kind.h"
#include "longspan/kernels/rows/activation.h"
#include "longspan/kernels/rows/norm.h"

namespace longspan {

// Nobody's model is larger, and one of these can be walked: a wrong number must not become a loop
// or an allocation without end.
struct ModelLimits {
  static constexpr std::size_t kLayers = 4096;
  static constexpr std::size_t kWidth = std::size_t{1} << 24U;   // or a vocabulary, or classes
  static constexpr std::size_t kLength = std::size_t{1} << 40U;  // of a sequence, or of a batch
  static constexpr std::size_t kText = std::size_t{1} << 20U;    // characters of a specification
};

struct ModelConfig {
  Choice<Family> family = Family::kDecoder;
  Choice<HeadKind> head = HeadKind::kLanguage;
  std::string loss = "cross-entropy";  // or another of layers/loss.h
  std::size_t layers = 4;              // of the encoder, or of the only stack
  std::size_t decoder_layers = 0;      // encoder-decoder only
  std::size_t decoder_heads = 0;       // of its decoder; 0: as many as the encoder's
  std::size_t decoder_d_ff = 0;        // likewise
  std::size_t d_model = 128;
  std::size_t heads = 4;
  std::size_t kv_heads = 0;    // 0: as many as heads
  std::size_t head_width = 0;  // of a query, key and value; 0: d_model / heads
  std::size_t d_ff = 0;        // 0: 4·d_model
  std::size_t vocab = 256;
  std::size_t max_length = 64;
  std::size_t max_source_length = 0;  // of an encoder-decoder's encoder; 0: max_length
  std::size_t classes = 0;            // of a classifier, a tagger or a head of pairs
  // Of a second head beside that of a language, which tells whole sequences apart; 0: none.
  std::size_t pair_classes = 0;
  std::size_t inputs = 0;  // of a perceptron: features of an example
  // In place of the encoder's tokens (layers/stem.h).
  Choice<StemKind> stem = StemKind::kTokens;
  std::size_t channels = 0;  // of a pixel, or of a frame of sound
  std::size_t image = 0;     // pixels of a side
  std::size_t patch = 0;     // of a side of a patch
  bool stem_bias = true;
  bool class_token = true;  // a learned one before the patches
  // A mechanism or another mixer of tokens, or several "a|b" that the layers take in turn.
  std::string attention = "flash";
  std::string decoder_attention;  // of an encoder-decoder's decoder; empty: as attention
  std::string cross_attention;    // likewise
  // What follows it in a layer: dense, or experts:key=value,…; several likewise.
  std::string feed_forward = "dense";
  Choice<Wiring> wiring = Wiring::kPreNorm;
  bool first_norm = true;      // of pre wiring, before the first branch
  bool final_norm = true;      // of all wirings but post, behind the last layer
  bool shared_layers = false;  // all layers have the weights of the first
  // Layers of each stage of an encoder, "4|4|4", between which its sequences are pooled; the layers
  // that remain run at full length again, behind the sum with what the first stage gave. Empty: one.
  std::string stages;
  Choice<StagePool> stage_pool = StagePool::kMean;
  bool stage_cls = true;       // the first token stands apart
  bool stage_truncate = true;  // and the last is left out where the others are pooled
  bool unpooled_keys = true;   // the first layer of a stage reads those of the one before
  Choice<StreamEnd> streams = StreamEnd::kMean;
  Choice<NormKind> norm = NormKind::kLayer;
  float norm_epsilon = 1e-5F;
  bool norm_weight = true;  // norms scale
  bool norm_bias = true;    // LayerNorm shifts too
  Choice<Activation> activation = Activation::kGeluTanh;
  bool gated = false;  // SwiGLU with activation = silu
  Choice<PositionKind> positions = PositionKind::kLearned;
  std::size_t position_offset = 0;  // of learned positions
  std::size_t axial_rows = 0;       // of axial positions, and their width
  std::size_t axial_width = 0;
  float rotary_base = 10000.0F;
  bool rotary_interleaved = true;
  // More of rotary positions, "key=value,…" (layers/rotary.h), or several "a|b" that the layers take
  // in turn; "none": layers without.
  std::string rotary;
  Choice<QueryNorm> query_norm = QueryNorm::kNone;  // of queries and keys, before they are rotated
  bool bias = true;
  bool attention_bias = true;       // in the projections of attention too, where there are biases
  bool projection_bias = true;      // of these, in those of queries, keys and values
  bool output_bias = true;          // and behind the heads
  bool feed_forward_bias = true;    // in the feed-forward, where there are biases
  bool tied = true;                 // the softmax layer shares the token table
  bool shared_table = true;         // encoder and decoder look tokens up in one table
  bool head_bias = false;           // of the softmax layer or classifier
  bool head_constant_bias = false;  // one beside it that is not trained
  bool head_transform = false;
  bool head_transform_bias = true;
  bool head_activates = true;  // the transform ends in an activation
  Choice<Activation> head_activation = Activation::kGelu;
  bool head_norm = false;
  std::size_t output_width = 0;  // at which the transform ends, and outputs are taken; 0: d_model
  float logit_scale = 1.0F;
  float logit_cap = 0.0F;            // c·tanh(x/c) of the scaled logits; 0: none
  Choice<Pool> pool = Pool::kFirst;  // of a classifier or a head of pairs
  bool embedding_norm = false;
  bool embedding_projection = false;  // a matrix behind the norm
  bool embedding_projection_bias = true;
  bool embedding_projects_tokens = false;  // it stands before positions, types and norm
  bool decoder_norm_first = false;         // the norm stands before the decoder's positions
  std::size_t embedding_width = 0;         // of all before that; 0: d_model
  // What a library keeps among its weights beside them: tables that are computed here, or are not
  // read. Counted, no more.
  std::size_t stored_numbers = 0;
  bool embedding_scale = false;  // token vectors are multiplied by √d_model
  bool embedding_mask = false;   // padding is embedded as zeros
  std::size_t token_types = 0;
  bool embedding_types = true;  // they have vectors; else attention alone is told of them
  std::int64_t padding_token = -1;
  float dropout = 0.0F;
  bool checkpointing = false;     // layers keep their input only and are computed again
  std::size_t frozen_layers = 0;  // the embedding and the first layers are not trained
  std::size_t lora_rank = 0;      // > 0: only adapters of this rank in the attention are trained
  float lora_alpha = 16.0F;
  float init_deviation = 0.02F;

  // Of the last hidden states, and of what a transform of the head makes of them.
  std::size_t end_width() const { return streams == StreamEnd::kConcat ? 2 * d_model : d_model; }
  std::size_t transformed_width() const { return output_width == 0 ? end_width() : output_width; }
  // What the head tells apart.
  std::size_t outputs() const {
    if (head == HeadKind::kStates) return head_transform ? transformed_width() : end_width();
    return head == HeadKind::kLanguage ? vocab : classes;
  }
  // Whether a sequence has one output; states have where a transform pools them.
  bool pools() const {
    return head == HeadKind::kClassifier || head == HeadKind::kPairs ||
           (head == HeadKind::kStates && head_transform);
  }
  // Sequences that one example has.
  std::size_t sequences_each() const { return head == HeadKind::kPairs ? 2 : 1; }
  // Rows of scores, of so many sequences.
  std::size_t output_rows(std::size_t batch, std::size_t length) const {
    return pools() ? batch / sequences_each() : batch * length;
  }
  std::size_t feed_forward_width() const { return d_ff == 0 ? 4 * d_model : d_ff; }
  // Of an encoder–decoder's decoder.
  std::size_t heads_of_decoder() const { return decoder_heads == 0 ? heads : decoder_heads; }
  std::size_t feed_forward_of_decoder() const {
    return decoder_d_ff == 0 ? feed_forward_width() : decoder_d_ff;
  }

  bool operator==(const ModelConfig&) const = default;

  template <class See>
  void visit(See see) {
    see("family", family);
    see("head", head);
    see("loss", loss);
    see("layers", layers);
    see("decoder_layers", decoder_layers);
    see("decoder_heads", decoder_heads);
    see("decoder_d_ff", decoder_d_ff);
    see("d_model", d_model);
    see("heads", heads);
    see("kv_heads", kv_heads);
    see("head_width", head_width);
    see("d_ff", d_ff);
    see("vocab", vocab);
    see("max_length", max_length);
    see("max_source_length", max_source_length);
    see("classes", classes);
    see("pair_classes", pair_classes);
    see("inputs", inputs);
    see("stem", stem);
    see("channels", channels);
    see("image", image);
    see("patch", patch);
    see("stem_bias", stem_bias);
    see("class_token", class_token);
    see("attention", attention);
    see("decoder_attention", decoder_attention);
    see("cross_attention", cross_attention);
    see("feed_forward", feed_forward);
    see("wiring", wiring);
    see("first_norm", first_norm);
    see("final_norm", final_norm);
    see("shared_layers", shared_layers);
    see("stages", stages);
    see("stage_pool", stage_pool);
    see("stage_cls", stage_cls);
    see("stage_truncate", stage_truncate);
    see("unpooled_keys", unpooled_keys);
    see("streams", streams);
    see("norm", norm);
    see("norm_epsilon", norm_epsilon);
    see("norm_weight", norm_weight);
    see("norm_bias", norm_bias);
    see("activation", activation);
    see("gated", gated);
    see("positions", positions);
    see("position_offset", position_offset);
    see("axial_rows", axial_rows);
    see("axial_width", axial_width);
    see("rotary_base", rotary_base);
    see("rotary_interleaved", rotary_interleaved);
    see("rotary", rotary);
    see("query_norm", query_norm);
    see("bias", bias);
    see("attention_bias", attention_bias);
    see("projection_bias", projection_bias);
    see("output_bias", output_bias);
    see("feed_forward_bias", feed_forward_bias);
    see("tied", tied);
    see("shared_table", shared_table);
    see("head_bias", head_bias);
    see("head_constant_bias", head_constant_bias);
    see("head_transform", head_transform);
    see("head_transform_bias", head_transform_bias);
    see("head_activates", head_activates);
    see("head_activation", head_activation);
    see("head_norm", head_norm);
    see("output_width", output_width);
    see("logit_scale", logit_scale);
    see("logit_cap", logit_cap);
    see("pool", pool);
    see("embedding_norm", embedding_norm);
    see("embedding_projection", embedding_projection);
    see("embedding_projection_bias", embedding_projection_bias);
    see("embedding_projects_tokens", embedding_projects_tokens);
    see("decoder_norm_first", decoder_norm_first);
    see("embedding_width", embedding_width);
    see("stored_numbers", stored_numbers);
    see("embedding_scale", embedding_scale);
    see("embedding_mask", embedding_mask);
    see("token_types", token_types);
    see("embedding_types", embedding_types);
    see("padding_token", padding_token);
    see("dropout", dropout);
    see("checkpointing", checkpointing);
    see("frozen_layers", frozen_layers);
    see("lora_rank", lora_rank);
    see("lora_alpha", lora_alpha);
    see("init_deviation", init_deviation);
  }
};

// Rows of the longest sequence of an encoder.
inline std::size_t longest_source(const ModelConfig& c) {
  const bool own = c.family == Family::kEncoderDecoder && c.max_source_length > 0;
  return own ? c.max_source_length : c.max_length;
}

// Of a query and key.
inline std::size_t head_width_of(const ModelConfig& c) {
  return c.head_width == 0 ? c.d_model / c.heads : c.head_width;
}

// What a layer takes of "a|b", whose parts the layers take in turn.
std::string turn_of(const std::string& specification, std::size_t layer);

// Whether some layer has queries and keys: mixers alone have neither heads nor rotary positions.
bool attends(const ModelConfig& config);

// The numbers of "4|4|4"; none where it is empty.
std::vector<std::size_t> layers_of_stages(const ModelConfig& config);

// Throws Error, in one sentence, for a model that cannot be built.
void check(const ModelConfig& config);

}  // namespace longspan
