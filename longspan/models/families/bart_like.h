// What BART and its relatives have in common: two stacks with learned or fixed positions, sizes by
// the same names, and a constant added to the logits.
#pragma once

#include "longspan/models/families/family.h"
#include "longspan/models/families/heads.h"

namespace longspan {

// Both stacks, their widths and heads; biases everywhere.
ModelConfig bart_sizes(const ConfigFields& f);
// Tables of positions, whose first rows so many are not used.
void place_bart_tables(Placer& p, bool positions);
// Layers of a stack, "encoder" or "decoder", with the names of its self-attention's parts.
struct BartNames {
  const char* stack = "encoder";
  const char* q = ".self_attn.q_proj";
  const char* k = ".self_attn.k_proj";
  const char* v = ".self_attn.v_proj";
  const char* out = ".self_attn.out_proj";
};
void place_bart_layer(Placer& p, const BartNames& names, std::size_t i);
// The whole body where nothing has another name.
void place_bart(Placer& p);

// The next token of the decoder, and the class that an encoder–decoder's last one tells.
void generation(const ConfigFields& f, ModelConfig& c);
void place_generation(Placer& p);  // lm_head, final_logits_bias

}  // namespace longspan
