// Attention to a window and to summaries of blocks, from its definition, for any scalar type.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <vector>

#include "longspan/attention/pattern/transient_global.h"

namespace longspan {

struct TransientGlobalReference {
  TransientGlobalConfig config;

  // k̂|v̂ of block g of `count`: rows of W_K|W_V times the normed sum.
  template <class T, template <class> class Tensors>
  std::vector<T> summary(const Tensors<T>& t, std::size_t b, std::size_t g,
                         std::size_t count) const {
    const AttentionShape& s = t.shape;
    const std::size_t length = t.mask.keys(b, s.n);
    const std::size_t inputs = s.heads * s.d;
    const std::size_t end = g + 1 < count ? (g + 1) * config.block : length;
    std::vector<T> x(inputs);
    for (std::size_t i = g * config.block; i < end; ++i) {
      for (std::size_t c = 0; c < inputs; ++c) x[c] += t.x[(b * s.n + i) * inputs + c];
    }
    T square{};
    for (const T& z : x) square += z * z / static_cast<double>(inputs);
    for (std::size_t c = 0; c < inputs; ++c) {
      x[c] *= t.parameters.at("attention.global_norm.gamma")[c] /
              std::sqrt(square + static_cast<double>(config.epsilon));
    }
    const auto& weight = t.parameters.at("attention.qkv.weight");
    const auto& bias = t.parameters.at("attention.qkv.bias");
    std::vector<T> kv(2 * s.kv_heads * s.d);
    for (std::size_t r = 0; r < kv.size(); ++r) {
      const std::size_t row = s.heads * s.d + r;
      kv[r] = bias[row];
      for (std::size_t c = 0; c < inputs; ++c) kv[r] += weight[row * inputs + c] * x[c];
    }
    return kv;
  }

  template <class T, template <class> class Tensors>
  std::vector<T> operator()(const Tensors<T>& t) const {
    const AttentionShape& s = t.shape;
    std::vector<T> y(s.batch * s.heads * s.n * s.d, T{});
    for (std::size_t b = 0; b < s.batch; ++b) {
      const std::size_t count = t.mask.keys(b, s.n) / config.block;
      std::vector<std::vector<T>> summaries;
      for (std::size_t g = 0; g < count; ++g) summaries.push_back(summary(t, b, g, count));
      for (std::size_t row = 0; row < s.heads * s.n; ++row) {
        add_row(t, b, row / s.n, row % s.n, summaries, &y[(b * s.heads * s.n + row) * s.d]);
      }
    }
    return y;
  }

  template <class T, template <class> class Tensors>
  void add_row(const Tensors<T>& t, std::size_t b, std::size_t h, std::size_t i,
               const std::vector<std::vector<T>>& summaries, T* y) const {
    const AttentionShape& s = t.shape;
    const std::size_t length = t.mask.keys(b, s.n);
    const std::size_t kv = h / (s.heads / s.kv_heads);
    const Buckets buckets{config.buckets, config.span, true};
    const double scale =
        config.scale > 0.0 ? config.scale : 1.0 / std::sqrt(static_cast<double>(s.d));
    const auto plane = static_cast<std::uint32_t>(b * s.heads + h);
    const T* q = &t.q[((b * s.heads + h) * s.n + i) * s.d];
    T total{};
    const auto add = [&](const T* k, const T* v, const T& bias, double kept) {
      T score{};
      for (std::size_t c = 0; c < s.d; ++c) score += q[c] * k[c];
      const T weight = std::exp(score * scale + bias);
      total += weight;
      for (std::size_t c = 0; c < s.d; ++c) y[c] += kept * weight * v[c];
    };
    const auto kept = [&](Dropout dropout, std::size_t query, std::size_t key) {
      return dropout.active()
                 ? static_cast<double>(dropout.factor(plane, static_cast<std::uint32_t>(query),
                                                      static_cast<std::uint32_t>(key)))
                 : 1.0;
    };
    for (std::size_t j = 0; j < length; ++j) {
      const auto r = static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(j);
      if (static_cast<std::size_t>(std::abs(r)) > config.radius) continue;
      const std::size_t at = ((b * s.kv_heads + kv) * s.n + j) * s.d;
      add(&t.k[at], &t.v[at],
          t.parameters.at("stack.distances")[bucket_of(buckets, r) * s.heads + h],
          kept(t.dropout, i, j));
    }
    Dropout other = t.dropout;  // of each 64 queries its own
    other.key = derive(t.dropout.key, i / 64);
    for (std::size_t g = 0; i < length && g < summaries.size(); ++g) {
      const std::size_t own = std::min(i / config.block, summaries.size() - 1);
      const auto r = static_cast<std::ptrdiff_t>(own) - static_cast<std::ptrdiff_t>(g);
      add(&summaries[g][kv * s.d], &summaries[g][(s.kv_heads + kv) * s.d],
          t.parameters.at("stack.global_distances")[bucket_of(buckets, r) * s.heads + h],
          kept(other, i % 64, g));
    }
    for (std::size_t c = 0; c < s.d && total != T{}; ++c) y[c] /= total;
  }
};

}  // namespace longspan
