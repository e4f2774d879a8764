// Funnel's attention from its definition, for any scalar type.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "longspan/attention/position/funnel.h"
#include "longspan/attention/position/transformer_xl_ref.h"

namespace longspan {

struct FunnelReference {
  bool cls = true;
  bool joker = true;
  std::size_t step = 1;

  // In tokens of the model's input.
  std::ptrdiff_t distance(std::size_t i, std::size_t j, const AttentionShape& s) const {
    const auto query = static_cast<std::ptrdiff_t>(i);
    const auto key = static_cast<std::ptrdiff_t>(j);
    const auto unit = static_cast<std::ptrdiff_t>(step);
    if (s.m == s.n) return unit * (query - key);
    return unit * (2 * query - key - (cls ? 1 : 0));
  }

  template <class T, template <class> class Tensors>
  bool same(const Tensors<T>& t, std::size_t b, std::size_t i, std::size_t j) const {
    if (t.token_types.empty()) return true;
    const AttentionShape& s = t.shape;
    std::size_t at = i;
    if (s.m != s.n && i > 0) at = std::min(s.n - 1, 2 * i - (cls ? 1 : 0));
    const std::int32_t query = t.token_types[b * s.n + at];
    const std::int32_t key = t.token_types[b * s.n + j];
    return query == key || (joker && (query == 2 || key == 2));
  }

  template <class T, template <class> class Tensors>
  std::vector<T> operator()(const Tensors<T>& t) const {
    const AttentionShape& s = t.shape;
    const std::size_t width = s.heads * s.d;
    const auto& weight = t.parameters.at("attention.relative.weight");
    const auto& u = t.parameters.at("attention.relative.u");
    const auto& v = t.parameters.at("attention.relative.v");
    const auto& by_type = t.parameters.at("attention.relative.s");
    const auto& types = t.parameters.at("attention.relative.types");
    const double scale = 1.0 / std::sqrt(static_cast<double>(s.d));
    std::vector<T> y(s.batch * s.heads * s.m * s.e, T{});
    for (std::size_t row = 0; row < s.batch * s.heads * s.m; ++row) {
      const std::size_t plane = row / s.m;
      const std::size_t head = plane % s.heads * s.d;
      const std::size_t i = row % s.m;
      std::vector<T> p(t.mask.keys(plane / s.heads, s.n));
      double top = -1e300;
      for (std::size_t j = 0; j < p.size(); ++j) {
        const std::size_t g = same(t, plane / s.heads, i, j) ? width : 0;
        for (std::size_t c = 0; c < s.d; ++c) {
          const T q = t.q[row * s.d + c];
          p[j] += scale * (q + u[head + c]) * t.k[(plane * s.n + j) * s.d + c];
          if (cls && (i == 0 || j == 0)) continue;
          p[j] += scale * (q + by_type[head + c]) * types[g + head + c];
          T turned{};
          for (std::size_t x = 0; x < width; ++x) {
            turned += weight[(head + c) * width + x] *
                      TransformerXlReference::sinusoid(distance(i, j, s), x, width);
          }
          p[j] += scale * (q + v[head + c]) * turned;
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
