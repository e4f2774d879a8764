// Transformer-XL's attention from its definition, without history, for any scalar type.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "longspan/attention/position/transformer_xl.h"

namespace longspan {

struct TransformerXlReference {
  // Element c of R_r.
  static double sinusoid(std::ptrdiff_t r, std::size_t c, std::size_t width) {
    const std::size_t half = (width + 1) / 2;
    const double theta =
        std::pow(10000.0, -2.0 * static_cast<double>(c % half) / static_cast<double>(width));
    const double angle = static_cast<double>(r) * theta;
    return c < half ? std::sin(angle) : std::cos(angle);
  }

  template <class T, template <class> class Tensors>
  std::vector<T> operator()(const Tensors<T>& t) const {
    const AttentionShape& s = t.shape;
    const std::size_t width = s.heads * s.d;
    const auto& weight = t.parameters.at("attention.relative.weight");
    const auto& u = t.parameters.at("attention.relative.u");
    const auto& v = t.parameters.at("attention.relative.v");
    // Kr for the distances −(n − 1) … n − 1.
    std::vector<T> kr((2 * s.n - 1) * width);
    for (std::size_t i = 0; i < kr.size(); ++i) {
      const auto r = static_cast<std::ptrdiff_t>(i / width) - static_cast<std::ptrdiff_t>(s.n - 1);
      for (std::size_t c = 0; c < width; ++c) {
        kr[i] += weight[i % width * width + c] * sinusoid(r, c, width);
      }
    }
    const double scale = 1.0 / std::sqrt(static_cast<double>(s.d));
    std::vector<T> y(s.batch * s.heads * s.m * s.e, T{});
    for (std::size_t row = 0; row < s.batch * s.heads * s.m; ++row) {
      const std::size_t plane = row / s.m;
      const std::size_t head = plane % s.heads * s.d;
      const std::size_t i = row % s.m;
      const std::size_t length = t.mask.keys(plane / s.heads, s.n);
      if (i >= length) continue;
      std::vector<T> p(s.causal ? i + 1 : length);
      double top = -1e300;
      for (std::size_t j = 0; j < p.size(); ++j) {
        for (std::size_t c = 0; c < s.d; ++c) {
          const T q = t.q[row * s.d + c];
          p[j] += scale * (q + u[head + c]) * t.k[(plane * s.n + j) * s.d + c];
          p[j] += scale * (q + v[head + c]) * kr[(i + s.n - 1 - j) * width + head + c];
        }
        top = std::max(top, std::real(p[j]));
      }
      T total{};
      for (T& x : p) total += x = std::exp(x - top);
      for (std::size_t j = 0; j < p.size(); ++j) {
        for (std::size_t c = 0; c < s.e; ++c) {
          y[row * s.e + c] += p[j] / total * t.v[(plane * s.n + j) * s.e + c];
        }
      }
    }
    return y;
  }
};

}  // namespace longspan
