#include "longspan/testing/executed_site.h"

#include <algorithm>

#include "longspan/attention/registry.h"

namespace longspan::testing {

Site encoder_site(const ModelConfig& c, const Batch& batch) {
  const std::size_t n = translates(c) ? batch.source_length : batch.length;
  const std::span<const std::int32_t> lengths =
      translates(c) ? batch.source_lengths : batch.lengths;
  return {.part = ModelPart::kEncoder,
          .m = n,
          .n = n,
          .key_lengths = lengths,
          .packed = batch.packed,
          .query_lengths = lengths};
}

Site decoder_site(const Batch& batch) {
  return {.part = ModelPart::kDecoder,
          .causal = true,
          .m = batch.length,
          .n = batch.length,
          .key_lengths = batch.lengths,
          .packed = batch.packed,
          .query_lengths = batch.lengths};
}

Site cross_site(Site decoder, const Batch& batch) {
  decoder.cross = true;
  decoder.causal = false;
  decoder.n = batch.source_length;
  decoder.key_lengths = batch.source_lengths;
  return decoder;
}

std::vector<Rectangle> rectangles(const Site& site, const Batch& batch) {
  if (!site.packed) return {{batch.batch, site.m, site.n, site.key_lengths}};
  std::vector<Rectangle> all;
  for (std::size_t b = 0; b < batch.batch; ++b) {
    const auto m = static_cast<std::size_t>(site.query_lengths[b]);
    const auto n = static_cast<std::size_t>(site.key_lengths[b]);
    // What else is told apart by length: the source, for the layers of the decoder.
    const bool other = b > 0 && site.part == ModelPart::kDecoder && !batch.source_lengths.empty() &&
                       batch.source_lengths[b] != batch.source_lengths[b - 1];
    if (all.empty() || other || all.back().m != m || all.back().n != n) all.push_back({0, m, n});
    ++all.back().batch;
  }
  return all;
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

Count turning_channels(const ModelConfig& c, const Site& site, Count d_head) {
  if (c.positions != PositionKind::kRotary || site.cross) return 0;
  const std::string options = turn_of(c.rotary, site.layer);
  if (options == "none") return 0;
  const std::size_t at = (',' + options).find(",width=");
  const Count width = at == std::string::npos ? 0 : std::stoul(options.substr(at + 6));
  return width > 0 ? width : d_head;
}

SiteAttention attention_at(const ModelConfig& c, const Batch& batch, const Site& site, bool drops) {
  const std::size_t d_head = head_width_at(c, site);
  const std::size_t heads = heads_at(c, site);
  const std::size_t kv_heads = kv_heads_at(c, site);
  const std::size_t source = longest_source(c);
  const AttentionLayout layout{
      .layer = site.layer,
      .d_model = c.d_model,
      .heads = heads,
      .kv_heads = kv_heads,
      .d_head = d_head,
      .max_length = site.part == ModelPart::kEncoder ? source : std::max(c.max_length, source)};
  const LoneAttention mechanism(mixer_of(c, site), layout,
                                c.bias && c.attention_bias && c.projection_bias);
  AttentionCost cost;
  for (const Rectangle& r : rectangles(site, batch)) {
    const AttentionCost own = mechanism->cost({.batch = r.batch,
                                               .heads = heads,
                                               .kv_heads = kv_heads,
                                               .m = r.m,
                                               .n = r.n,
                                               .d = d_head,
                                               .e = d_head,
                                               .causal = site.causal,
                                               .key_lengths = r.key_lengths,
                                               .dropout = drops});
    cost.forward += own.forward;
    cost.backward += own.backward;
    cost.update += own.update;
    cost.signals += own.signals;
  }
  return {.cost = cost,
          .q_width = heads * d_head,
          .k_width = mechanism->abilities().shared_qk ? 0 : kv_heads * d_head,
          .v_width = kv_heads * d_head,
          .query_bias = mechanism.streams().given[0].bias.value_or(true),
          .key_bias = mechanism.streams().given[1].bias.value_or(true)};
}

Cost core_at(const ModelConfig& c, const Batch& batch, const Site& site, const CoreWidths& widths) {
  const LoneAttention mechanism("flash", {});
  const std::size_t heads = heads_at(c, site);
  Cost cost;
  for (const Rectangle& r : rectangles(site, batch)) {
    const AttentionCost own = mechanism->cost({.batch = r.batch,
                                               .heads = heads,
                                               .kv_heads = heads,
                                               .m = r.m,
                                               .n = r.n,
                                               .d = widths.d,
                                               .e = widths.e,
                                               .causal = site.causal,
                                               .key_lengths = r.key_lengths,
                                               .dropout = widths.drops});
    cost.forward += own.forward;
    cost.backward += own.backward;
  }
  return cost;
}

bool trains_table(const ModelConfig& c, const Site& stack) {
  if (adapts(c)) return false;
  const bool first = !translates(c) || stack.part == ModelPart::kEncoder;
  return c.frozen_layers == 0 || (!first && !shares_table(c));
}

bool trains_embedding(const ModelConfig& c, const Site& stack) {
  if (trains_table(c, stack)) return true;
  if (adapts(c) || !translates(c) || stack.part == ModelPart::kEncoder) return false;
  return c.positions == PositionKind::kLearned || c.positions == PositionKind::kAxial ||
         (c.token_types > 0 && c.embedding_types) || (c.embedding_norm && norms_learn(c)) ||
         c.embedding_projection || table_width(c) != c.d_model;
}

}  // namespace longspan::testing
