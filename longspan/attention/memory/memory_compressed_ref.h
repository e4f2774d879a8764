// Memory-compressed attention from its definition, for any scalar type.
#pragma once

#include <cmath>
#include <complex>
#include <vector>

#include "longspan/attention/memory/memory_compressed.h"

namespace longspan {

// Tensors has shape, mask, q, k, v and parameters in a scalar type; no dropout.
template <class Tensors>
auto memory_compressed_reference(const MemoryCompressedConfig& config, const Tensors& t) {
  using T = typename decltype(t.q)::value_type;
  const AttentionShape& s = t.shape;
  const std::size_t stride = config.stride;
  const std::size_t shift = s.causal ? stride - 1 : 0;
  const std::size_t slots = (s.n + stride - 1) / stride;
  // Slot `slot` of a key head, from the tokens that are real.
  const auto compress = [&](const std::vector<T>& x, const std::vector<T>& w, std::size_t b,
                            std::size_t g, std::size_t slot) {
    std::vector<T> bar(s.d, T{});
    for (std::size_t r = 0; r < stride; ++r) {
      const std::size_t at = slot * stride + r;
      if (at < shift || at - shift >= t.mask.keys(b, s.n)) continue;
      const T* token = &x[((b * s.kv_heads + g) * s.n + at - shift) * s.d];
      for (std::size_t o = 0; o < s.d; ++o) {
        for (std::size_t c = 0; c < s.d; ++c) {
          bar[o] += w[(g * s.d + o) * stride * s.d + r * s.d + c] * token[c];
        }
      }
    }
    return bar;
  };
  std::vector<T> y(s.batch * s.heads * s.m * s.d, T{});
  for (std::size_t row = 0; row < s.batch * s.heads * s.m; ++row) {
    const std::size_t b = row / s.m / s.heads;
    const std::size_t g = row / s.m % s.heads / (s.heads / s.kv_heads);
    const std::size_t keys = t.mask.keys(b, s.n);
    T total{};
    for (std::size_t slot = 0; slot < slots; ++slot) {
      const std::size_t first = slot * stride > shift ? slot * stride - shift : 0;
      if (first >= keys) continue;
      if (s.causal && slot * stride > row % s.m + s.n - s.m) continue;
      const auto k = compress(t.k, t.parameters.at("attention.compressed.keys"), b, g, slot);
      const auto v = compress(t.v, t.parameters.at("attention.compressed.values"), b, g, slot);
      T score{};
      for (std::size_t c = 0; c < s.d; ++c) score += t.q[row * s.d + c] * k[c];
      const T weight = std::exp(score / std::sqrt(static_cast<double>(s.d)));
      total += weight;
      for (std::size_t c = 0; c < s.d; ++c) y[row * s.d + c] += weight * v[c];
    }
    for (std::size_t c = 0; c < s.d && std::real(total) > 0.0; ++c) y[row * s.d + c] /= total;
  }
  return y;
}

}  // namespace longspan
