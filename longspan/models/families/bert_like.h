// What BERT and its relatives have in common: sizes, embedding and layers under their names.
#pragma once

#include <string>

#include "longspan/models/families/family.h"

namespace longspan {

// Transformer blocks as in the paper, a transform between them and the output layer.
ModelConfig post_norm_encoder();

// What they are where the config is silent.
struct BertDefaults {
  const char* activation = "gelu";
  std::size_t token_types = 2;
  std::int64_t padding_token = 0;
  double epsilon = 1e-12;
};
// Sizes by BERT's names of fields; heads too, where there are any.
ModelConfig bert_sizes(const ConfigFields& f, const BertDefaults& defaults);
ModelConfig bert_config(const ConfigFields& f, const BertDefaults& defaults);
// The first position is the one behind that of padding (RoBERTa).
void offset_positions(ModelConfig& c);
// Embeddings of another width before the layers (ALBERT).
void factorise_embedding(const ConfigFields& f, ModelConfig& c);

// relative_key and relative_key_query: a vector for each distance in every layer, and no positions.
// Their library keeps the table of positions, which it does not read.
void set_relative_keys(const ConfigFields& f, ModelConfig& c);

void place_bert_embedding(Placer& p);
// Everything of a layer but the projections to queries, keys and values.
void place_bert_layer(Placer& p, const std::string& from, const std::string& to);
// `suffix` of query, key and value.
void place_bert_layers(Placer& p, const std::string& suffix = "");
void place_bert(Placer& p);

}  // namespace longspan
