#include "longspan/cost/model_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "longspan/attention/attention.h"
#include "longspan/layers/multi_head_attention.h"

namespace longspan {

namespace {

std::string list_in_words(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

ModelSummary summarize(const Model& model) {
  ModelSummary s;
  for (const Branch* branch : model.branches()) {
    if (const Attention* attention = branch->mechanism(); attention != nullptr) {
      const std::size_t back = attention->reads_back();
      if (branch->meter_name() == MultiHeadAttention::kCrossMeter) continue;
      s.windows.push_back(back == Reach::kAll ? 0 : back + 1);
    }
    s.active -= static_cast<Integer>(branch->idle_parameters());
    if (branch->experts() == 0) continue;
    ++s.expert_layers;
    s.experts = branch->experts();
    s.chosen = branch->chosen_experts();
  }
  for (const Parameter& p : model.parameters().all()) {
    if (!p.fill) s.active += static_cast<Integer>(p.size());
  }
  const Model::CacheSize cache = model.cache_size();
  s.cache_per_token = static_cast<Integer>(cache.per_token);
  s.cache_fixed = static_cast<Integer>(cache.fixed);
  return s;
}

std::string turns_in_words(const std::string& turns, std::size_t layers) {
  std::vector<std::string> kinds;
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string turn = turn_of(turns, i);
    const auto known = std::ranges::find(kinds, turn);
    if (known == kinds.end()) {
      kinds.push_back(turn);
      counts.push_back(1);
    } else {
      ++counts[static_cast<std::size_t>(known - kinds.begin())];
    }
  }
  if (kinds.size() < 2) return kinds.empty() ? turns : kinds.front();
  std::vector<std::string> parts;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    parts.push_back(fmt::format("{} ({} layer{})", kinds[k], counts[k], counts[k] == 1 ? "" : "s"));
  }
  return list_in_words(parts);
}

std::string in_words(const ModelSummary& s) {
  std::vector<std::string> parts;
  const auto windowed =
      s.windows.size() - static_cast<std::size_t>(std::ranges::count(s.windows, std::size_t{0}));
  if (windowed > 0) {
    const auto [least, most] = std::ranges::minmax(s.windows);
    const std::string size = most == least || least == 0 ? fmt::format("{}", most)
                                                         : fmt::format("{} to {}", least, most);
    parts.push_back(windowed == s.windows.size()
                        ? fmt::format("a window of {} back in every layer", size)
                        : fmt::format("a window of {} back in {} of {} layers", size, windowed,
                                      s.windows.size()));
  }
  if (s.experts > 0) {
    parts.push_back(fmt::format("{} of {} experts in {} layer{}", s.chosen, s.experts,
                                s.expert_layers, s.expert_layers == 1 ? "" : "s"));
  }
  if (s.experts > 0) {
    parts.push_back(fmt::format("{} parameters active for a token", to_grouped_decimal(s.active)));
  }
  if (s.cache_per_token > 0) {
    parts.push_back(
        fmt::format("decoding keeps {} numbers of a token", to_grouped_decimal(s.cache_per_token)));
  }
  return list_in_words(parts);
}

}  // namespace longspan
