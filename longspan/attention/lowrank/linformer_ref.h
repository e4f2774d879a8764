// The Linformer from its definition, with its effective matrix over the slots, for any scalar type.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "longspan/attention/lowrank/linformer.h"

namespace longspan {

// E [slots, n] of a key head as a matrix, zeros for padding; `values` asks for F.
template <class Tensors>
auto linformer_projection(const LinformerConfig& config, std::size_t max_length, const Tensors& t,
                          std::size_t b, std::size_t g, bool values) {
  using T = typename decltype(t.q)::value_type;
  const std::size_t n = t.shape.n;
  const std::size_t keys = t.mask.keys(b, n);
  const bool learned = config.projection == LinformerProjection::kLearned;
  const std::size_t w = (max_length + config.k - 1) / config.k;
  const std::size_t slots = learned ? config.k : (n + w - 1) / w;
  std::vector<T> e(slots * n, T{});
  const bool stack = config.sharing == LinformerSharing::kLayerwise;
  const bool one = stack || config.sharing == LinformerSharing::kKeyValue;
  const std::string name = std::string(stack ? "stack" : "attention") +
                           (values && !one ? ".linformer.f" : ".linformer.e");
  for (std::size_t j = 0; j < keys; ++j) {
    if (config.projection == LinformerProjection::kPool) {
      e[j / w * n + j] = 1.0 / static_cast<double>(std::min(w, keys - j / w * w));
      continue;
    }
    const std::vector<T>& table = t.parameters.at(name);
    const std::size_t head = config.sharing == LinformerSharing::kNone ? g : 0;
    if (!learned) e[j / w * n + j] = table[head * w + j % w];
    for (std::size_t s = 0; learned && s < slots; ++s) {
      e[s * n + j] = table[(head * slots + s) * max_length + j];
    }
  }
  return e;
}

// Tensors has shape, mask, q, k, v and parameters in a scalar type.
template <class Tensors>
auto linformer_reference(const LinformerConfig& config, std::size_t max_length, const Tensors& t) {
  using T = typename decltype(t.q)::value_type;
  const AttentionShape& s = t.shape;
  std::vector<T> y(s.batch * s.heads * s.m * s.e, T{});
  for (std::size_t plane = 0; plane < s.batch * s.heads; ++plane) {
    const std::size_t b = plane / s.heads;
    const std::size_t g = plane % s.heads / (s.heads / s.kv_heads);
    const std::size_t kv = b * s.kv_heads + g;
    const auto project = [&](const std::vector<T>& x, std::size_t width, bool values) {
      const std::vector<T> e = linformer_projection(config, max_length, t, b, g, values);
      std::vector<T> bar(e.size() / s.n * width, T{});
      for (std::size_t at = 0; at < e.size(); ++at) {
        for (std::size_t c = 0; c < width; ++c) {
          bar[at / s.n * width + c] += e[at] * x[(kv * s.n + at % s.n) * width + c];
        }
      }
      return bar;
    };
    const std::vector<T> k = project(t.k, s.d, false);
    const std::vector<T> v = project(t.v, s.e, true);
    std::size_t slots = k.size() / s.d;
    if (config.projection != LinformerProjection::kLearned) {
      const std::size_t w = (max_length + config.k - 1) / config.k;
      slots = (t.mask.keys(b, s.n) + w - 1) / w;
    }
    for (std::size_t i = 0; i < s.m; ++i) {
      std::vector<T> p(slots, T{});
      T total{};
      for (std::size_t j = 0; j < slots; ++j) {
        for (std::size_t c = 0; c < s.d; ++c)
          p[j] += t.q[(plane * s.m + i) * s.d + c] * k[j * s.d + c];
        p[j] = std::exp(p[j] / std::sqrt(static_cast<double>(s.d)));
        total += p[j];
      }
      for (std::size_t j = 0; j < slots; ++j) {
        for (std::size_t c = 0; c < s.e; ++c) {
          y[(plane * s.m + i) * s.e + c] += p[j] / total * v[j * s.e + c];
        }
      }
    }
  }
  return y;
}

}  // namespace longspan
