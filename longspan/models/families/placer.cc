#include "longspan/models/families/placer.h"

#include <fmt/format.h>

#include <utility>

#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/layers/experts.h"

namespace longspan {

std::string Placer::base(std::string_view name) const {
  return base_.empty() ? std::string(name) : fmt::format("{}.{}", base_, name);
}

std::string Placer::layer(std::size_t i) const {
  return config_.family == Family::kDecoder ? fmt::format("decoder.{}", i)
                                            : fmt::format("encoder.{}", i);
}

std::string Placer::source_layer(std::string_view stack, std::size_t i) const {
  return fmt::format("{}.{}", base(stack), i);
}

void Placer::whole(std::string source, std::string parameter) {
  list_.push_back({.source = std::move(source), .parameter = std::move(parameter)});
}

void Placer::second_name(std::string source, std::string parameter) {
  list_.push_back(
      {.source = std::move(source), .parameter = std::move(parameter), .second_name = true});
}

void Placer::some(const std::string& source, const std::string& parameter, std::size_t first,
                  std::size_t count) {
  list_.push_back({.source = source, .parameter = parameter, .first_row = first, .rows = count});
}

void Placer::part(const std::string& source, std::size_t source_row, std::size_t source_rows,
                  const std::string& parameter, std::size_t first, std::size_t count) {
  list_.push_back({.source = source,
                   .parameter = parameter,
                   .first_row = first,
                   .rows = count,
                   .source_row = source_row,
                   .source_rows = source_rows});
}

void Placer::transposed(const std::string& source, const std::string& parameter) {
  list_.push_back({.source = source, .parameter = parameter, .transpose = true});
}

void Placer::slice(const std::string& source, const std::string& parameter, std::size_t first,
                   std::size_t count, WeightPlacement::Slice slice) {
  list_.push_back({.source = source,
                   .parameter = parameter,
                   .first_row = first,
                   .rows = count,
                   .slice = std::move(slice)});
}

void Placer::transposed_rows(const std::string& source, const std::string& parameter,
                             std::size_t first, std::size_t count) {
  list_.push_back({.source = source,
                   .parameter = parameter,
                   .first_row = first,
                   .rows = count,
                   .transpose = true});
}

void Placer::both(const std::string& source, const std::string& parameter) {
  whole(source + ".weight", parameter + ".weight");
  whole(source + ".bias", parameter + ".bias");
}

void Placer::norm(const std::string& source, const std::string& parameter) {
  whole(source + ".weight", parameter + ".weight");
  if (config_.norm == NormKind::kLayer && config_.norm_bias) {
    whole(source + ".bias", parameter + ".bias");
  }
}

void Placer::norm_above_one(const std::string& source, const std::string& parameter) {
  list_.push_back({.source = source + ".weight", .parameter = parameter + ".weight", .plus = 1.0F});
}

bool Placer::biased(BiasOf which) const {
  if (!config_.bias) return false;
  switch (which) {
    case BiasOf::kProjections:
      return config_.attention_bias && config_.projection_bias;
    case BiasOf::kAttentionOutput:
      return config_.attention_bias && config_.output_bias;
    case BiasOf::kFeedForward:
      return config_.feed_forward_bias;
    case BiasOf::kAny:
      break;
  }
  return true;
}

void Placer::rows(const std::string& source, const std::string& parameter, std::size_t first,
                  std::size_t count, BiasOf bias) {
  some(source + ".weight", parameter + ".weight", first, count);
  if (biased(bias)) some(source + ".bias", parameter + ".bias", first, count);
}

void Placer::conv1d(const std::string& source, const std::string& parameter) {
  transposed(source + ".weight", parameter + ".weight");
  whole(source + ".bias", parameter + ".bias");
}

void Placer::qkv(const std::string& q, const std::string& k, const std::string& v,
                 const std::string& attention) {
  const std::size_t queries = query_columns();
  const std::size_t keys = key_columns();
  rows(q, attention + ".qkv", 0, queries, BiasOf::kProjections);
  rows(k, attention + ".qkv", queries, keys, BiasOf::kProjections);
  rows(v, attention + ".qkv", queries + keys, keys, BiasOf::kProjections);
}

void Placer::cross_qkv(const std::string& q, const std::string& k, const std::string& v,
                       const std::string& attention) {
  const std::size_t keys = key_columns();
  rows(q, attention + ".q", 0, query_columns(), BiasOf::kProjections);
  rows(k, attention + ".kv", 0, keys, BiasOf::kProjections);
  rows(v, attention + ".kv", keys, keys, BiasOf::kProjections);
}

void Placer::shared_qk(const std::string& qk, const std::string& v, const std::string& attention) {
  const std::size_t queries = query_columns();
  rows(qk, attention + ".qkv", 0, queries, BiasOf::kProjections);
  rows(v, attention + ".qkv", queries, queries, BiasOf::kProjections);
}

void Placer::fused_qkv(const std::string& source, const std::string& attention,
                       const FusedProjection& fused) {
  const std::size_t queries = query_columns();
  const std::size_t keys = key_columns();
  const std::size_t all = queries + 2 * keys;
  require(fused.groups > 0 && queries % fused.groups == 0 && keys % fused.groups == 0,
          "[pretrained] {} and {} columns of queries and keys in {} groups; need a divisor",
          queries, keys, fused.groups);
  const auto place = [&](const char* tensor) {
    std::size_t at = 0;
    for (std::size_t g = 0; g < fused.groups; ++g) {
      for (const char which : fused.order) {
        const std::size_t each = (which == 'q' ? queries : keys) / fused.groups;
        const std::size_t begin = which == 'q' ? 0 : which == 'k' ? queries : queries + keys;
        part(source + tensor, at, all, attention + ".qkv" + tensor, begin + g * each, each);
        at += each;
      }
    }
  };
  place(".weight");
  if (biased(BiasOf::kProjections)) place(".bias");
}

void Placer::gated(const std::string& gate, const std::string& up,
                   const std::string& feed_forward) {
  const std::size_t width = config_.feed_forward_width();
  rows(gate, feed_forward + ".in", 0, width, BiasOf::kFeedForward);
  rows(up, feed_forward + ".in", width, width, BiasOf::kFeedForward);
}

void Placer::gated_of(const std::string& gate, const std::string& up,
                      const std::string& feed_forward, std::size_t width) {
  some(gate + ".weight", feed_forward + ".in.weight", 0, width);
  some(up + ".weight", feed_forward + ".in.weight", width, width);
}

ExpertSizes Placer::expert_sizes() const {
  constexpr std::string_view kExperts = "experts:";
  for (const std::string& turn : split_list(config_.feed_forward, '|')) {
    if (!turn.starts_with(kExperts)) continue;
    ExpertsConfig options;
    parse_options("experts", turn.substr(kExperts.size()), options);
    return {.experts = options.experts,
            .width = options.width == 0 ? config_.feed_forward_width() : options.width,
            .shared = options.shared,
            .correction = options.correction};
  }
  return {};
}

void Placer::output_weight(const std::string& source) {
  if (config_.tied) {
    second_name(source, "embedding.tokens");
  } else {
    whole(source, "head.output.weight");
  }
}

bool Placer::uses(std::string_view text) const {
  return config_.attention.find(text) != std::string::npos;
}

}  // namespace longspan
