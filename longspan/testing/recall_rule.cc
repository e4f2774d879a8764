#include "longspan/testing/recall_rule.h"

#include <fmt/core.h>

#include <map>
#include <set>
#include <span>

namespace longspan::testing {

namespace {

using Tokens = std::span<const std::int32_t>;

std::string pairs_fault(Tokens tokens, const RecallSizes& sizes,
                        std::map<std::int32_t, std::int32_t>& value) {
  const std::int32_t half = sizes.symbols / 2;
  std::set<std::int32_t> values;
  for (std::size_t p = 0; p < sizes.pairs; ++p) {
    const std::int32_t k = tokens[2 * p];
    const std::int32_t v = tokens[2 * p + 1];
    if (k < 1 || k >= half) return fmt::format("token {} is no key", 2 * p);
    if (v < half || v >= sizes.symbols) return fmt::format("token {} is no value", 2 * p + 1);
    if (!value.emplace(k, v).second) return fmt::format("the key {} has two values", k);
    if (!values.insert(v).second) return fmt::format("the value {} has two keys", v);
  }
  return "";
}

std::string row_fault(Tokens tokens, Tokens targets, const RecallSizes& sizes) {
  std::map<std::int32_t, std::int32_t> value;
  const std::string fault = pairs_fault(tokens, sizes, value);
  if (!fault.empty()) return fault;
  std::set<std::int32_t> asked;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= sizes.symbols) return fmt::format("token {} is none", i);
    if (targets[i] == kIgnoredTarget) continue;
    if (i < 2 * sizes.pairs) return fmt::format("token {}, of a pair, has a target", i);
    if (i % 2 != 0) return fmt::format("token {}, second in its slot, has a target", i);
    const auto pair = value.find(tokens[i]);
    if (pair == value.end()) return fmt::format("token {} has a target and is no key", i);
    if (targets[i] != pair->second) {
      return fmt::format("the target of token {} is {}; its key's value is {}", i, targets[i],
                         pair->second);
    }
    if (!asked.insert(tokens[i]).second) return fmt::format("token {} is asked for twice", i);
  }
  return asked.size() == sizes.pairs ? "" : "some key is not asked for";
}

}  // namespace

std::string recall_fault(const Batch& batch, const RecallSizes& sizes) {
  const std::size_t n = batch.length;
  for (std::size_t row = 0; row < batch.batch; ++row) {
    const std::string fault =
        row_fault(batch.tokens.subspan(row * n, n), batch.targets.subspan(row * n, n), sizes);
    if (!fault.empty()) return fmt::format("row {}: {}", row, fault);
  }
  return "";
}

}  // namespace longspan::testing
