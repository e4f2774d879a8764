// Which keys BigBird sees, pair by pair.
#pragma once

#include <algorithm>
#include <array>

#include "longspan/attention/pattern/bigbird.h"

namespace longspan {

struct BigBirdReference {
  const BigBirdAttention& attention;
  AttentionShape shape;

  bool sees(std::size_t b, std::size_t h, std::size_t i, std::size_t j) const {
    const BigBirdConfig& c = attention.config();
    const std::size_t length =
        shape.key_lengths.empty() ? shape.n : static_cast<std::size_t>(shape.key_lengths[b]);
    const std::size_t position = i + shape.n - shape.m;
    if (position >= length || j >= length) return false;
    if (shape.causal && j > position) return false;
    if (c.etc > 0 && (position < c.etc || j < c.etc)) return true;
    const std::size_t query = (position - c.etc) / c.block;
    const std::size_t key = (j - c.etc) / c.block;
    if (key + c.window / 2 >= query && key <= query + c.window / 2) return true;
    if (c.etc > 0) return false;
    const std::size_t blocks = ((c.padded ? shape.n : length) + c.block - 1) / c.block;
    if (query == 0 || key == 0) return true;
    if (!shape.causal && (query + 1 == blocks || key + 1 == blocks)) return true;
    std::array<std::size_t, 64> drawn{};
    const auto end = drawn.begin() + static_cast<std::ptrdiff_t>(
                                         attention.draw(h, query, blocks, shape.causal, drawn));
    return std::find(drawn.begin(), end, key) != end;
  }
};

}  // namespace longspan
