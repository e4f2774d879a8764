#include "longspan/testing/executed_site.h"

#include <algorithm>

#include "longspan/attention/registry.h"

namespace longspan::testing {

Site encoder_site(const ModelConfig& c, const Batch& batch) {
  const std::size_t n = translates(c) ? batch.source_length : batch.length;
  return {.part = ModelPart::kEncoder,
          .m = n,
          .n = n,
          .key_lengths = translates(c) ? batch.source_lengths : batch.lengths};
}

Site decoder_site(const Batch& batch) {
  return {.part = ModelPart::kDecoder,
          .causal = true,
          .m = batch.length,
          .n = batch.length,
          .key_lengths = batch.lengths};
}

Site cross_site(Site decoder, const Batch& batch) {
  decoder.cross = true;
  decoder.causal = false;
  decoder.n = batch.source_length;
  decoder.key_lengths = batch.source_lengths;
  return decoder;
}

std::string turn_of(std::string_view specifications, std::size_t layer) {
  const auto count = static_cast<std::size_t>(std::ranges::count(specifications, '|')) + 1;
  for (std::size_t i = 0; i < layer % count; ++i) {
    specifications.remove_prefix(specifications.find('|') + 1);
  }
  return std::string(specifications.substr(0, specifications.find('|')));
}

std::string mixer_of(const ModelConfig& c, const Site& site) {
  const bool both = translates(c);
  if (site.cross && both && !c.cross_attention.empty()) {
    return turn_of(c.cross_attention, site.layer);
  }
  const bool own = both && site.part == ModelPart::kDecoder && !c.decoder_attention.empty();
  return turn_of(own ? c.decoder_attention : c.attention, site.layer);
}

SiteAttention attention_at(const ModelConfig& c, const Batch& batch, const Site& site, bool drops) {
  const std::size_t d_head = c.d_model / c.heads;
  const std::size_t kv_heads = c.kv_heads == 0 ? c.heads : c.kv_heads;
  const LoneAttention mechanism(mixer_of(c, site), {.layer = site.layer,
                                                    .d_model = c.d_model,
                                                    .heads = c.heads,
                                                    .kv_heads = kv_heads,
                                                    .d_head = d_head,
                                                    .max_length = c.max_length});
  return {.cost = mechanism->cost({.batch = batch.batch,
                                   .heads = c.heads,
                                   .kv_heads = kv_heads,
                                   .m = site.m,
                                   .n = site.n,
                                   .d = d_head,
                                   .e = d_head,
                                   .causal = site.causal,
                                   .key_lengths = site.key_lengths,
                                   .dropout = drops}),
          .k_width = mechanism->abilities().shared_qk ? 0 : kv_width(c),
          .query_bias = mechanism.streams().given[0].bias.value_or(true)};
}

bool trains_table(const ModelConfig& c, const Site& stack) {
  if (adapts(c)) return false;
  const bool first = !translates(c) || stack.part == ModelPart::kEncoder;
  return c.frozen_layers == 0 || (!first && !c.shared_table);
}

bool trains_embedding(const ModelConfig& c, const Site& stack) {
  if (trains_table(c, stack)) return true;
  if (adapts(c) || !translates(c) || stack.part == ModelPart::kEncoder) return false;
  return c.positions == PositionKind::kLearned || c.positions == PositionKind::kAxial ||
         (c.token_types > 0 && c.embedding_types) || c.embedding_norm || c.embedding_projection;
}

}  // namespace longspan::testing
