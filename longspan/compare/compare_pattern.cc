#include "longspan/compare/compare_pattern.h"

#include <algorithm>
#include <memory>

#include "longspan/attention/pattern/pattern.h"
#include "longspan/attention/registry.h"
#include "longspan/base/error.h"

namespace longspan {

namespace {

constexpr std::size_t kProbes = 8;  // along each side of a cell

}  // namespace

std::optional<std::vector<std::vector<std::uint64_t>>> small_pattern(std::string_view attention,
                                                                     std::size_t length,
                                                                     std::size_t cells,
                                                                     bool causal) {
  constexpr std::size_t kWidth = 64;
  require(cells > 0 && length >= cells, "[pattern] {} cells for {} tokens; need at most as many",
          cells, length);
  const LoneAttention mechanism(attention,
                                {.d_model = kWidth, .d_head = kWidth, .max_length = length});
  const auto* fixed = dynamic_cast<const FixedPattern*>(&*mechanism);
  if (fixed == nullptr || (causal && !mechanism->abilities().causal)) return std::nullopt;
  const AttentionShape shape{.m = length, .n = length, .d = kWidth, .e = kWidth, .causal = causal};
  const std::size_t part = length / cells;
  const std::size_t step = std::max<std::size_t>(1, part / kProbes);
  std::vector<std::vector<std::uint64_t>> out(cells, std::vector<std::uint64_t>(cells, 0));
  for (std::size_t i = 0; i < cells * part; i += step) {
    for (std::size_t j = 0; j < cells * part; j += step) {
      std::uint64_t& cell = out[i / part][j / part];
      if (cell == 0 && !fixed->reason(shape, 0, i, j).empty()) cell = 1;
    }
  }
  return out;
}

}  // namespace longspan
