// Attention with persistent memory from its definition, for any scalar type.
#pragma once

#include <cmath>
#include <complex>
#include <vector>

#include "longspan/attention/memory/memory_attention.h"

namespace longspan {

// Tensors has shape, mask, q, k, v and parameters in a scalar type; no bias, no dropout.
template <class Tensors>
auto memory_reference(const MemoryConfig& config, const Tensors& t) {
  using T = typename decltype(t.q)::value_type;
  const AttentionShape& s = t.shape;
  const std::vector<T>& keys = t.parameters.at("attention.memory.keys");
  const std::vector<T>& values = t.parameters.at("attention.memory.values");
  std::vector<T> y(s.batch * s.heads * s.m * s.e, T{});
  for (std::size_t row = 0; row < s.batch * s.heads * s.m; ++row) {
    const std::size_t b = row / s.m / s.heads;
    const std::size_t h = row / s.m % s.heads;
    const std::size_t kv = b * s.kv_heads + h / (s.heads / s.kv_heads);
    T total{};
    const auto add = [&](const T* k, const T* v) {
      T score{};
      for (std::size_t c = 0; c < s.d; ++c) score += t.q[row * s.d + c] * k[c];
      const T weight = std::exp(score / std::sqrt(static_cast<double>(s.d)));
      total += weight;
      for (std::size_t c = 0; c < s.e; ++c) y[row * s.e + c] += weight * v[c];
    };
    for (std::size_t j = 0; j < visible_end(t.mask, b, row % s.m, s.m, s.n); ++j) {
      add(&t.k[(kv * s.n + j) * s.d], &t.v[(kv * s.n + j) * s.e]);
    }
    for (std::size_t j = h * config.tokens; j < (h + 1) * config.tokens; ++j) {
      add(&keys[j * s.d], &values[j * s.e]);
    }
    for (std::size_t c = 0; c < s.e; ++c) y[row * s.e + c] /= total;
  }
  return y;
}

}  // namespace longspan
