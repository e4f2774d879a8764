// Sizes of released models, written from the structure of the reference classes; nothing here knows
// the library. BERT and its relatives.
#pragma once

#include "tests/released/config.h"

namespace released {

// BERT and its relatives.

inline u64 bert_relative_tables(const json& c) {  // distance_embedding of each attention
  if (!text(c, "position_embedding_type", "absolute").starts_with("relative_key")) return 0;
  const u64 head = hidden(c) / num(c, "num_attention_heads");
  return (2 * num(c, "max_position_embeddings") - 1) * head;
}

inline u64 bert_body(const json& c) {
  const u64 d = hidden(c);
  u64 layer = encoder_layer(d, ffn(c)) + bert_relative_tables(c);
  if (flag(c, "add_cross_attention", false))
    layer += 4 * linear(d, d) + layer_norm(d) + bert_relative_tables(c);
  return (vocab(c) + num(c, "max_position_embeddings", 512) + num(c, "type_vocab_size", 2)) * d +
         layer_norm(d) + layers_of(c) * layer;
}

// BERT: the pooler is in the bare model, in pre-training, and where one vector is classified.
inline u64 bert_parameters(const json& c) {
  const u64 d = hidden(c), body = bert_body(c), pooler = linear(d, d);
  const u64 words = prediction_head(d, d, vocab(c), tied(c, true));
  const std::string head = head_of(c);
  if (head == "Model") return body + pooler;
  if (head == "ForMaskedLM" || head == "LMHeadModel") return body + words;
  if (head == "ForPreTraining") return body + pooler + words + linear(d, 2);
  if (head == "ForNextSentencePrediction") return body + pooler + linear(d, 2);
  if (head == "ForSequenceClassification") return body + pooler + linear(d, labels(c));
  if (head == "ForMultipleChoice") return body + pooler + linear(d, 1);
  if (head == "ForTokenClassification" || head == "ForQuestionAnswering")
    return body + linear(d, labels(c));
  unknown_head(c);
}

// RoBERTa, XLM-R, CamemBERT: lm_head is dense, norm, tied decoder with a bias; a sequence is
// classified from its first token by two layers, without the pooler.
inline u64 roberta_parameters(const json& c) {
  const u64 d = hidden(c), body = bert_body(c), pooler = linear(d, d);
  const std::string head = head_of(c);
  if (head == "Model") return body + pooler;
  if (head == "ForMaskedLM" || head == "ForCausalLM")
    return body + prediction_head(d, d, vocab(c), tied(c, true));
  if (head == "ForSequenceClassification") return body + linear(d, d) + linear(d, labels(c));
  if (head == "ForMultipleChoice") return body + pooler + linear(d, 1);
  if (head == "ForTokenClassification" || head == "ForQuestionAnswering")
    return body + linear(d, labels(c));
  unknown_head(c);
}

// ALBERT: embeddings of width e, mapped once to d; the layers of a group share their weights.
inline u64 albert_parameters(const json& c) {
  const u64 d = hidden(c), e = num(c, "embedding_size", 128), pooler = linear(d, d);
  const u64 layer = encoder_layer(d, ffn(c)) + bert_relative_tables(c);
  const u64 body =
      (vocab(c) + num(c, "max_position_embeddings", 512) + num(c, "type_vocab_size", 2)) * e +
      layer_norm(e) + linear(e, d) +
      num(c, "num_hidden_groups", 1) * num(c, "inner_group_num", 1) * layer;
  const u64 words = prediction_head(d, e, vocab(c), tied(c, true));
  const std::string head = head_of(c);
  if (head == "Model") return body + pooler;
  if (head == "ForMaskedLM") return body + words;
  if (head == "ForPreTraining") return body + pooler + words + linear(d, labels(c));
  if (head == "ForSequenceClassification") return body + pooler + linear(d, labels(c));
  if (head == "ForMultipleChoice") return body + pooler + linear(d, 1);
  if (head == "ForTokenClassification" || head == "ForQuestionAnswering")
    return body + linear(d, labels(c));
  unknown_head(c);
}

// ELECTRA: embeddings of width e, projected only where e differs from d; never a pooler.
inline u64 electra_parameters(const json& c) {
  const u64 d = hidden(c), e = num(c, "embedding_size", 128), v = vocab(c);
  const u64 body = (v + num(c, "max_position_embeddings", 512) + num(c, "type_vocab_size", 2)) * e +
                   layer_norm(e) + (e == d ? 0 : linear(e, d)) +
                   layers_of(c) * (encoder_layer(d, ffn(c)) + bert_relative_tables(c));
  const std::string head = head_of(c);
  if (head == "Model") return body;
  if (head == "ForPreTraining") return body + linear(d, d) + linear(d, 1);  // the discriminator
  if (head == "ForMaskedLM" || head == "ForCausalLM")                       // the generator
    return body + prediction_head(d, e, v, tied(c, true));
  if (head == "ForSequenceClassification") return body + linear(d, d) + linear(d, labels(c));
  if (head == "ForMultipleChoice") return body + linear(d, d) + linear(d, 1);
  if (head == "ForTokenClassification" || head == "ForQuestionAnswering")
    return body + linear(d, labels(c));
  unknown_head(c);
}

// MPNet: no token types; one table of relative position biases for the whole encoder.
inline u64 mpnet_parameters(const json& c) {
  const u64 d = hidden(c), pooler = linear(d, d);
  const u64 body = (vocab(c) + num(c, "max_position_embeddings", 512)) * d + layer_norm(d) +
                   layers_of(c) * encoder_layer(d, ffn(c)) +
                   num(c, "relative_attention_num_buckets", 32) * num(c, "num_attention_heads");
  const std::string head = head_of(c);
  if (head == "Model") return body + pooler;
  if (head == "ForMaskedLM") return body + prediction_head(d, d, vocab(c), tied(c, true));
  if (head == "ForSequenceClassification") return body + linear(d, d) + linear(d, labels(c));
  if (head == "ForMultipleChoice") return body + pooler + linear(d, 1);
  if (head == "ForTokenClassification" || head == "ForQuestionAnswering")
    return body + linear(d, labels(c));
  unknown_head(c);
}

// DistilBERT: no token types, no pooler. Sinusoid positions are an nn.Embedding too.
inline u64 distilbert_parameters(const json& c) {
  const u64 d = num(c, "dim", 768), v = vocab(c);
  const u64 body = (v + num(c, "max_position_embeddings", 512)) * d + layer_norm(d) +
                   num(c, "n_layers", 6) * encoder_layer(d, num(c, "hidden_dim", 3072));
  const std::string head = head_of(c);
  if (head == "Model") return body;
  if (head == "ForMaskedLM") return body + prediction_head(d, d, v, tied(c, true));
  if (head == "ForSequenceClassification") return body + linear(d, d) + linear(d, labels(c));
  if (head == "ForMultipleChoice") return body + linear(d, d) + linear(d, 1);
  if (head == "ForTokenClassification" || head == "ForQuestionAnswering")
    return body + linear(d, labels(c));
  unknown_head(c);
}

// ModernBERT: rotary; gated feed-forward; the first layer has no norm before its attention.
inline u64 modernbert_parameters(const json& c) {
  const u64 d = hidden(c), f = ffn(c), v = vocab(c), n = layers_of(c);
  const u64 norm = flag(c, "norm_bias", false) ? 2 * d : d;
  const bool ab = flag(c, "attention_bias", false), mb = flag(c, "mlp_bias", false);
  const u64 layer =
      linear(d, 3 * d, ab) + linear(d, d, ab) + linear(d, 2 * f, mb) + linear(f, d, mb) + 2 * norm;
  const u64 body = v * d + norm + n * layer - (n > 0 ? norm : 0) + norm;
  const u64 dense = linear(d, d, flag(c, "classifier_bias", false)) + norm;
  const std::string head = head_of(c);
  if (head == "Model") return body;
  if (head == "ForMaskedLM")
    return body + dense + (tied(c, true) ? 0 : v * d) + (flag(c, "decoder_bias", true) ? v : 0);
  if (is_one_of(head,
                {"ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"}))
    return body + dense + linear(d, labels(c));
  unknown_head(c);
}

inline std::vector<std::string> position_attention(const json& c) {  // "p2c|c2p" or a list
  std::vector<std::string> kinds;
  if (!has(c, "pos_att_type")) return kinds;
  if (c.at("pos_att_type").is_array()) {
    for (const json& kind : c.at("pos_att_type")) kinds.push_back(kind.get<std::string>());
    return kinds;
  }
  std::string rest = c.at("pos_att_type").get<std::string>();
  for (std::size_t bar; !rest.empty();
       rest = bar == std::string::npos ? "" : rest.substr(bar + 1)) {
    bar = rest.find('|');
    kinds.push_back(rest.substr(0, bar));
  }
  return kinds;
}
inline bool contains(const std::vector<std::string>& kinds, std::string_view kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

// The embeddings of DeBERTa: absolute positions and token types only where the config asks.
inline u64 deberta_embeddings(const json& c) {
  const u64 d = hidden(c), e = num(c, "embedding_size", d);
  u64 rows = vocab(c) + num(c, "type_vocab_size", 0);
  if (flag(c, "position_biased_input", true)) rows += num(c, "max_position_embeddings", 512);
  return rows * e + (e == d ? 0 : e * d) + layer_norm(d);
}
inline u64 deberta_heads(const json& c, u64 body) {
  const u64 d = hidden(c), e = num(c, "embedding_size", d);
  const u64 p = num(c, "pooler_hidden_size", d);
  const std::string head = head_of(c);
  if (head == "Model") return body;
  if (head == "ForMaskedLM") return body + prediction_head(d, e, vocab(c), tied(c, true));
  if (head == "ForSequenceClassification") return body + linear(p, p) + linear(p, labels(c));
  if (head == "ForMultipleChoice") return body + linear(p, p) + linear(p, 1);
  if (head == "ForTokenClassification" || head == "ForQuestionAnswering")
    return body + linear(d, labels(c));
  unknown_head(c);
}
inline u64 deberta_relative_span(const json& c) {
  if (has(c, "max_relative_positions") && c.at("max_relative_positions").get<std::int64_t>() >= 1)
    return num(c, "max_relative_positions");
  return num(c, "max_position_embeddings", 512);
}

// DeBERTa v1: q, k and v in one matrix without bias, with a bias vector each for q and v.
inline u64 deberta_parameters(const json& c) {
  const u64 d = hidden(c), f = ffn(c);
  const bool relative = flag(c, "relative_attention", false);
  const std::vector<std::string> kinds = position_attention(c);
  u64 attention = linear(d, 3 * d, false) + 2 * d;
  if (relative && contains(kinds, "c2p")) attention += linear(d, d, false);
  if (relative && contains(kinds, "p2c")) attention += linear(d, d);
  if (flag(c, "talking_head", false)) {
    const u64 h = num(c, "num_attention_heads");
    attention += 2 * h * h;
  }
  const u64 layer = attention + linear(d, d) + linear(d, f) + linear(f, d) + 2 * layer_norm(d);
  return deberta_heads(c, deberta_embeddings(c) + layers_of(c) * layer +
                              (relative ? 2 * deberta_relative_span(c) * d : 0));
}

// DeBERTa v2 and v3: three projections with bias; positions share them or have their own; the
// table of buckets has a norm; v2 has one convolution beside the first layer.
inline u64 deberta_v2_parameters(const json& c) {
  const u64 d = hidden(c), f = ffn(c);
  const bool relative = flag(c, "relative_attention", false);
  const std::vector<std::string> kinds = position_attention(c);
  u64 layer = encoder_layer(d, f);
  if (relative && !flag(c, "share_att_key", false))
    layer += linear(d, d) * (contains(kinds, "c2p") + contains(kinds, "p2c"));
  u64 body = deberta_embeddings(c) + layers_of(c) * layer;
  if (relative) {
    u64 span = deberta_relative_span(c);
    if (has(c, "position_buckets") && c.at("position_buckets").get<std::int64_t>() > 0)
      span = num(c, "position_buckets");
    body += 2 * span * d;
  }
  if (text(c, "norm_rel_ebd", "none").find("layer_norm") != std::string::npos)
    body += layer_norm(d);
  if (const u64 k = num(c, "conv_kernel_size", 0); k > 0)
    body += d * (d / num(c, "conv_groups", 1)) * k + d + layer_norm(d);
  return deberta_heads(c, body);
}

// BigBird: BERT, with its pooler below the language-model head too.
inline u64 big_bird_parameters(const json& c) {
  const u64 d = hidden(c), f = ffn(c), pooler = linear(d, d);
  const bool bias = flag(c, "use_bias", true);
  const u64 layer =
      3 * linear(d, d, bias) + linear(d, d) + linear(d, f) + linear(f, d) + 2 * layer_norm(d);
  const u64 body =
      (vocab(c) + num(c, "max_position_embeddings", 4096) + num(c, "type_vocab_size", 2)) * d +
      layer_norm(d) + layers_of(c) * layer;
  const u64 words = prediction_head(d, d, vocab(c), tied(c, true));
  const std::string head = head_of(c);
  if (head == "Model") return body + pooler;
  if (head == "ForMaskedLM" || head == "ForCausalLM") return body + pooler + words;
  if (head == "ForPreTraining") return body + pooler + words + linear(d, 2);
  if (head == "ForSequenceClassification")
    return body + pooler + linear(d, d) + linear(d, labels(c));
  if (head == "ForMultipleChoice") return body + pooler + linear(d, 1);
  if (head == "ForTokenClassification") return body + pooler + linear(d, labels(c));
  if (head == "ForQuestionAnswering")  // a feed-forward before the span; the class sets 2 labels
    return body + linear(d, f) + linear(f, d) + layer_norm(d) + linear(d, 2);
  unknown_head(c);
}

// Longformer: a second query, key and value in each layer for the global tokens.
inline u64 longformer_parameters(const json& c) {
  const u64 d = hidden(c), pooler = linear(d, d);
  const u64 body =
      (vocab(c) + num(c, "max_position_embeddings", 512) + num(c, "type_vocab_size", 2)) * d +
      layer_norm(d) + layers_of(c) * (encoder_layer(d, ffn(c)) + 3 * linear(d, d));
  const std::string head = head_of(c);
  if (head == "Model") return body + pooler;
  if (head == "ForMaskedLM") return body + prediction_head(d, d, vocab(c), tied(c, true));
  if (head == "ForSequenceClassification") return body + linear(d, d) + linear(d, labels(c));
  if (head == "ForMultipleChoice") return body + pooler + linear(d, 1);
  if (head == "ForTokenClassification" || head == "ForQuestionAnswering")
    return body + linear(d, labels(c));
  unknown_head(c);
}

// Nyströmformer and YOSO: two rows more of positions; a depthwise convolution over the values of
// each head; no pooler.
inline u64 convolved_bert_parameters(const json& c, u64 kernel) {
  const u64 d = hidden(c);
  const u64 layer = encoder_layer(d, ffn(c)) + num(c, "num_attention_heads") * kernel;
  const u64 body =
      (vocab(c) + num(c, "max_position_embeddings") + 2 + num(c, "type_vocab_size")) * d +
      layer_norm(d) + layers_of(c) * layer;
  const std::string head = head_of(c);
  if (head == "Model") return body;
  if (head == "ForMaskedLM") return body + prediction_head(d, d, vocab(c), tied(c, true));
  if (head == "ForSequenceClassification") return body + linear(d, d) + linear(d, labels(c));
  if (head == "ForMultipleChoice") return body + linear(d, d) + linear(d, 1);
  if (head == "ForTokenClassification" || head == "ForQuestionAnswering")
    return body + linear(d, labels(c));
  unknown_head(c);
}
inline u64 nystromformer_parameters(const json& c) {
  // Defaults of the class: 65 where the key is missing, none where it is null.
  const u64 kernel = c.contains("conv_kernel_size") ? num(c, "conv_kernel_size", 0) : 65;
  return convolved_bert_parameters(c, kernel);
}
inline u64 yoso_parameters(const json& c) {
  return convolved_bert_parameters(c, num(c, "conv_window", 0));
}

// FNet: no attention weights; a projection after the embeddings; the pooler stays below the
// language-model head.
inline u64 fnet_parameters(const json& c) {
  const u64 d = hidden(c), f = ffn(c), pooler = linear(d, d);
  const u64 layer = linear(d, f) + linear(f, d) + 2 * layer_norm(d);
  const u64 body =
      (vocab(c) + num(c, "max_position_embeddings", 512) + num(c, "type_vocab_size", 4)) * d +
      layer_norm(d) + linear(d, d) + layers_of(c) * layer;
  const u64 words = prediction_head(d, d, vocab(c), tied(c, true));
  const std::string head = head_of(c);
  if (head == "Model") return body + pooler;
  if (head == "ForMaskedLM") return body + pooler + words;
  if (head == "ForPreTraining") return body + pooler + words + linear(d, 2);
  if (head == "ForNextSentencePrediction") return body + pooler + linear(d, 2);
  if (head == "ForSequenceClassification") return body + pooler + linear(d, labels(c));
  if (head == "ForMultipleChoice") return body + pooler + linear(d, 1);
  if (head == "ForTokenClassification") return body + pooler + linear(d, labels(c));
  if (head == "ForQuestionAnswering") return body + linear(d, labels(c));
  unknown_head(c);
}

// Funnel: q has no bias, k and v have; four vectors or matrices of relative positions per layer.
// block_repeats share weights. The base model has no decoder.
inline u64 funnel_parameters(const json& c) {
  const u64 d = num(c, "d_model", 768), f = num(c, "d_inner", 3072),
            v = num(c, "vocab_size", 30522);
  const u64 n = num(c, "n_head", 12), h = num(c, "d_head", 64), w = n * h;
  const u64 attention =
      linear(d, w, false) + 2 * linear(d, w) + 3 * w + d * w + 2 * w + linear(w, d) + layer_norm(d);
  const u64 layer = attention + linear(d, f) + linear(f, d) + layer_norm(d);
  u64 encoder = 12;
  if (has(c, "block_sizes")) {
    encoder = 0;
    for (const json& size : c.at("block_sizes")) encoder += size.get<u64>();
  }
  const u64 base = v * d + layer_norm(d) + encoder * layer;
  const u64 full = base + num(c, "num_decoder_layers", 2) * layer;
  const std::string head = head_of(c);
  if (head == "BaseModel") return base;
  if (head == "Model") return full;
  if (head == "ForPreTraining") return full + linear(d, d) + linear(d, 1);
  if (head == "ForMaskedLM") return full + v + (tied(c, true) ? 0 : v * d);
  if (head == "ForSequenceClassification") return base + linear(d, d) + linear(d, labels(c));
  if (head == "ForMultipleChoice") return base + linear(d, d) + linear(d, 1);
  if (head == "ForTokenClassification" || head == "ForQuestionAnswering")
    return full + linear(d, labels(c));
  unknown_head(c);
}

// RoFormer: rotary, from a table that is an nn.Embedding of [positions, head size] without
// gradient: numel() counts it. No pooler.
inline u64 roformer_table(const json& c) {
  return num(c, "max_position_embeddings", 1536) * (hidden(c) / num(c, "num_attention_heads"));
}
inline u64 roformer_parameters(const json& c) {
  const u64 d = hidden(c), e = num(c, "embedding_size", d), v = vocab(c);
  const u64 body = (v + num(c, "type_vocab_size", 2)) * e + layer_norm(e) +
                   (e == d ? 0 : linear(e, d)) + roformer_table(c) +
                   layers_of(c) * encoder_layer(d, ffn(c));
  const std::string head = head_of(c);
  if (head == "Model") return body;
  if (head == "ForMaskedLM" || head == "ForCausalLM")
    return body + prediction_head(d, e, v, tied(c, true));
  if (head == "ForSequenceClassification") return body + linear(d, d) + linear(d, labels(c));
  if (head == "ForMultipleChoice") return body + linear(d, d) + linear(d, 1);
  if (head == "ForTokenClassification" || head == "ForQuestionAnswering")
    return body + linear(d, labels(c));
  unknown_head(c);
}

// XLNet: q, k, v, o and r without bias, three biases and a segment matrix per layer.
inline u64 xlnet_parameters(const json& c) {
  const u64 d = num(c, "d_model"), f = num(c, "d_inner"), v = vocab(c);
  const u64 n = num(c, "n_head"), w = n * (d / n);
  const u64 layer =
      5 * d * w + 3 * w + 2 * w + layer_norm(d) + linear(d, f) + linear(f, d) + layer_norm(d);
  const u64 body = v * d + d + num(c, "n_layer") * layer;  // words, the mask vector
  const u64 summary = linear(d, d);
  const std::string head = head_of(c);
  if (head == "Model") return body;
  if (head == "LMHeadModel") return body + v + (tied(c, true) ? 0 : v * d);
  if (head == "ForSequenceClassification") return body + summary + linear(d, labels(c));
  if (head == "ForMultipleChoice") return body + summary + linear(d, 1);
  if (head == "ForTokenClassification" || head == "ForQuestionAnsweringSimple")
    return body + linear(d, labels(c));
  if (head == "ForQuestionAnswering")  // start; end given start; answerable or not
    return body + linear(d, 1) + linear(2 * d, d) + layer_norm(d) + linear(d, 1) +
           linear(2 * d, d) + linear(d, 1, false);
  unknown_head(c);
}

// Transformer-XL: adaptive embeddings of d_embed / div_val^i and an adaptive softmax that shares
// them; proj_share_all_but_first ties the projections of all clusters but the first.
inline u64 transfo_xl_parameters(const json& c) {
  const u64 d = num(c, "d_model"), e = num(c, "d_embed", d), v = vocab(c);
  const u64 w = num(c, "n_head") * num(c, "d_head"), f = num(c, "d_inner");
  const u64 div = num(c, "div_val", 1), n = num(c, "n_layer");
  std::vector<u64> ends;
  if (has(c, "cutoffs")) ends = c.at("cutoffs").get<std::vector<u64>>();
  ends.push_back(v);
  const u64 clusters = ends.size() - 1;
  u64 embedding = 0, projections = 0, free_projections = 0, bias = v;
  u64 begin = 0, width = e;
  for (std::size_t i = 0; i < ends.size(); begin = ends[i], width /= div, ++i) {
    embedding += (ends[i] - begin) * width;
    if (div == 1) continue;
    projections += width * d;
    const bool shared = i > 0 && flag(c, "proj_share_all_but_first", true);
    if (!shared) free_projections += width * d;
  }
  if (div == 1 && e != d) projections = e * d;
  const u64 position_biases = 2 * w * (flag(c, "untie_r", true) ? n : 1);
  const u64 layer = linear(d, 3 * w, false) + linear(w, d, false) + linear(d, w, false) +
                    linear(d, f) + linear(f, d) + 2 * layer_norm(d);
  const u64 body = embedding + projections + n * layer + position_biases;
  const std::string head = head_of(c);
  if (head == "Model") return body;
  if (head != "LMHeadModel") unknown_head(c);
  if (div == 1 && e != d)
    throw std::invalid_argument("[released] div_val 1 needs d_embed = d_model");
  const u64 softmax = clusters * e + clusters + bias + (tied(c, true) ? 0 : embedding);
  return body + softmax + free_projections;
}

// Reformer: the two halves of the reversible stream meet in the last norm and the head (2d).
inline u64 reformer_parameters(const json& c) {
  const u64 d = num(c, "hidden_size", 256), f = num(c, "feed_forward_size", 512);
  const u64 w = num(c, "num_attention_heads", 12) * num(c, "attention_head_size", 64);
  u64 positions = num(c, "max_position_embeddings", 4096) * d;
  if (flag(c, "axial_pos_embds", true)) {
    positions = 0;
    for (std::size_t i = 0; i < c.at("axial_pos_shape").size(); ++i)
      positions +=
          c.at("axial_pos_shape").at(i).get<u64>() * c.at("axial_pos_embds_dim").at(i).get<u64>();
  }
  u64 body = vocab(c) * d + positions + layer_norm(2 * d);
  for (const json& kind : c.at("attn_layers")) {
    const u64 in = kind.get<std::string>() == "lsh" ? 2 : 3;  // LSH shares query and key
    body += layer_norm(d) + in * d * w + w * d;
    body += layer_norm(d) + linear(d, f) + linear(f, d);
  }
  const std::string head = head_of(c);
  if (head == "Model") return body;
  if (head == "WithLMHead" || head == "ForMaskedLM") return body + linear(2 * d, vocab(c));
  if (head == "ForSequenceClassification") return body + linear(2 * d, d) + linear(d, labels(c));
  if (head == "ForQuestionAnswering") return body + linear(2 * d, labels(c));
  unknown_head(c);
}

}  // namespace released
