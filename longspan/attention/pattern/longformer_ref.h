// Longformer's attention from its definition, for any scalar type.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "longspan/attention/pattern/longformer.h"

namespace longspan {

struct LongformerReference {
  const LongformerAttention& attention;

  bool sees(const AttentionShape& s, std::size_t b, std::size_t h, std::size_t i,
            std::size_t j) const {
    if (s.causal && j > i) return false;
    if (attention.is_global(s, b, i) || attention.is_global(s, b, j)) return true;
    const std::size_t distance = i > j ? i - j : j - i;
    const std::size_t step = attention.dilation(h);
    return distance % step == 0 && distance / step <= attention.config().window / 2;
  }

  template <class T, template <class> class Tensors>
  std::vector<T> operator()(const Tensors<T>& t) const {
    const AttentionShape& s = t.shape;
    const std::size_t w = s.heads * s.d;
    const auto& weight = t.parameters.at("attention.global.weight");
    const auto& bias = t.parameters.at("attention.global.bias");
    // Element c of part 0, 1 or 2 of x_i·W_gᵀ + b_g.
    const auto projected = [&](std::size_t b, std::size_t i, std::size_t part, std::size_t c) {
      T sum = bias[part * w + c];
      for (std::size_t x = 0; x < w; ++x) {
        sum += t.x[(b * s.n + i) * w + x] * weight[(part * w + c) * w + x];
      }
      return sum;
    };
    std::vector<T> y(s.batch * s.heads * s.m * s.d, T{});
    for (std::size_t row = 0; row < s.batch * s.heads * s.m; ++row) {
      const std::size_t plane = row / s.m;
      const std::size_t b = plane / s.heads;
      const std::size_t h = plane % s.heads;
      const std::size_t i = row % s.m;
      const std::size_t length = t.mask.keys(b, s.n);
      if (i >= length) continue;
      const bool global = attention.is_global(s, b, i);
      const auto value = [&](std::size_t token, std::size_t part, std::size_t c) {
        if (global) return projected(b, token, part, h * s.d + c);
        const std::size_t at = (plane * s.n + token) * s.d + c;
        return part == 0 ? t.q[at] : part == 1 ? t.k[at] : t.v[at];
      };
      std::vector<T> p(length);
      double top = -1e300;
      for (std::size_t j = 0; j < length; ++j) {
        if (!sees(s, b, h, i, j)) continue;
        for (std::size_t c = 0; c < s.d; ++c) p[j] += value(i, 0, c) * value(j, 1, c);
        p[j] /= std::sqrt(static_cast<double>(s.d));
        top = std::max(top, std::real(p[j]));
      }
      T total{};
      for (std::size_t j = 0; j < length; ++j) {
        p[j] = sees(s, b, h, i, j) ? std::exp(p[j] - top) : T{};
        total += p[j];
      }
      for (std::size_t j = 0; j < length; ++j) {
        for (std::size_t c = 0; c < s.d && sees(s, b, h, i, j); ++c) {
          y[row * s.d + c] += p[j] / total * value(j, 2, c);
        }
      }
    }
    return y;
  }
};

}  // namespace longspan
