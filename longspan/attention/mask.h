// Which keys a query may see. One value type for every mechanism.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longspan {

// A [batch, heads, m, n] table whose batch or head stride may be 0 (shared).
template <class T>
struct TableView {
  T* data = nullptr;
  std::size_t batch_stride = 0;
  std::size_t head_stride = 0;
  std::size_t row_stride = 0;

  explicit operator bool() const { return data != nullptr; }
  T* row(std::size_t b, std::size_t h, std::size_t i) const {
    return data + b * batch_stride + h * head_stride + i * row_stride;
  }
};

struct Mask {
  // Query i of m sees key j of n iff j ≤ i + (n − m): the last query sees the last key.
  bool causal = false;
  // Keys j ≥ key_lengths[b] are padding; empty = every key is real.
  std::span<const std::int32_t> key_lengths;
  // Tokens that see and are seen by all, [batch·n], 1 = global; empty = the mechanism's own choice.
  // Only mechanisms with global tokens read it.
  std::span<const std::uint8_t> globals;
  // Exact kinds only. Added to the scaled scores; 1 = visible.
  TableView<const float> bias;
  TableView<const std::uint8_t> visible;

  std::size_t keys(std::size_t b, std::size_t n) const {
    return key_lengths.empty() ? n : static_cast<std::size_t>(key_lengths[b]);
  }
};

// The keys [0, end) that query i can see by causality and length alone.
inline std::size_t visible_end(const Mask& mask, std::size_t b, std::size_t i, std::size_t m,
                               std::size_t n) {
  const std::size_t keys = mask.keys(b, n);
  if (!mask.causal) return keys;
  const std::size_t end = i + 1 + n > m ? i + 1 + n - m : 0;
  return end < keys ? end : keys;
}

}  // namespace longspan
