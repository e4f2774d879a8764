// Exact attention with the options of flash from its definition, one pair at a time, for any scalar
// type: double for values, std::complex<double> for gradients.
#pragma once

#include <cmath>
#include <complex>
#include <cstdlib>
#include <vector>

#include "longspan/attention/exact/flash.h"

namespace longspan {

// Tensors has shape, mask, dropout, q, k, v and parameters in a scalar type.
template <class Tensors>
class FlashReference {
 public:
  using T = typename decltype(Tensors::q)::value_type;

  FlashReference(const FlashConfig& config, const Tensors& t) : config_(config), t_(t) {}

  std::vector<T> operator()() const {
    const AttentionShape& s = t_.shape;
    std::vector<T> y(s.batch * s.heads * s.m * s.e, T{});
    for (std::size_t row = 0; row < s.batch * s.heads * s.m; ++row) {
      add_row(row / s.m / s.heads, row / s.m % s.heads, row % s.m, &y[row * s.e]);
    }
    return y;
  }

 private:
  bool sees(std::size_t b, std::size_t i, std::size_t j) const {
    if (j >= visible_end(t_.mask, b, i, t_.shape.m, t_.shape.n)) return false;
    const std::size_t place = i + t_.shape.n - t_.shape.m;
    return j > place ? j - place <= config_.after : place - j <= config_.before;
  }

  // d_{r,h}
  T distance(std::size_t h, std::ptrdiff_t r) const {
    if (config_.distances == DistanceKind::kNone) return T{};
    if (config_.distances == DistanceKind::kAlibi) {
      return -config_.slope * alibi_slope(h, t_.shape.heads) * static_cast<double>(std::abs(r));
    }
    const Buckets buckets{config_.buckets, config_.span, config_.two_sided};
    return t_.parameters.at("stack.distances")[bucket_of(buckets, r) * t_.shape.heads + h];
  }

  T score(std::size_t b, std::size_t h, std::size_t i, std::size_t j) const {
    const AttentionShape& s = t_.shape;
    const T* q = &t_.q[((b * s.heads + h) * s.m + i) * s.d];
    const T* k = &t_.k[((b * s.kv_heads + h / (s.heads / s.kv_heads)) * s.n + j) * s.d];
    T x{};
    for (std::size_t c = 0; c < s.d; ++c) x += q[c] * k[c];
    x *= config_.scale > 0.0 ? config_.scale : 1.0 / std::sqrt(static_cast<double>(s.d));
    x += distance(h, static_cast<std::ptrdiff_t>(i + s.n - s.m) - static_cast<std::ptrdiff_t>(j));
    return config_.cap > 0.0 ? config_.cap * std::tanh(x / config_.cap) : x;
  }

  void add_row(std::size_t b, std::size_t h, std::size_t i, T* y) const {
    const AttentionShape& s = t_.shape;
    T total{};
    if (config_.sinks) total += std::exp(t_.parameters.at("attention.sinks")[h]);
    bool any = config_.sinks;
    for (std::size_t j = 0; j < s.n; ++j) {
      if (!sees(b, i, j)) continue;
      any = true;
      const T weight = std::exp(score(b, h, i, j));
      total += weight;
      const double kept =
          t_.dropout.active()
              ? t_.dropout.factor(static_cast<std::uint32_t>(b * s.heads + h),
                                  static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j))
              : 1.0;
      const T* v = &t_.v[((b * s.kv_heads + h / (s.heads / s.kv_heads)) * s.n + j) * s.e];
      for (std::size_t c = 0; c < s.e; ++c) y[c] += kept * weight * v[c];
    }
    for (std::size_t c = 0; any && c < s.e; ++c) y[c] /= total;
  }

  FlashConfig config_;
  const Tensors& t_;
};

}  // namespace longspan
