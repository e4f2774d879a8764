// Relative keys from their definition, for any scalar type.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "longspan/attention/position/relative_key.h"

namespace longspan {

struct RelativeKeyReference {
  RelativeKeyConfig config;

  std::size_t row(std::size_t query, std::size_t key) const {
    const auto farthest = static_cast<std::ptrdiff_t>(config.positions) - 1;
    const auto r = static_cast<std::ptrdiff_t>(query) - static_cast<std::ptrdiff_t>(key);
    return static_cast<std::size_t>(std::clamp(r, -farthest, farthest) + farthest);
  }

  template <class T, template <class> class Tensors>
  std::vector<T> operator()(const Tensors<T>& t) const {
    const AttentionShape& s = t.shape;
    const auto& table = t.parameters.at("attention.relative.distances");
    std::vector<T> y(s.batch * s.heads * s.m * s.e, T{});
    for (std::size_t at = 0; at < s.batch * s.heads * s.m; ++at) {
      const std::size_t b = at / s.m / s.heads;
      const std::size_t kv = b * s.kv_heads + at / s.m % s.heads / (s.heads / s.kv_heads);
      const std::size_t query = at % s.m + s.n - s.m;
      const std::size_t length = t.mask.keys(b, s.n);
      if (length == 0) continue;
      std::vector<T> p(s.causal ? std::min(query + 1, length) : length);
      double top = -1e300;
      for (std::size_t j = 0; j < p.size(); ++j) {
        for (std::size_t c = 0; c < s.d; ++c) {
          const T q = t.q[at * s.d + c];
          const T k = t.k[(kv * s.n + j) * s.d + c];
          const T distance = table[row(query, j) * s.d + c];
          p[j] += q * k + q * distance + (config.p2c ? k * distance : T{});
        }
        p[j] /= std::sqrt(static_cast<double>(s.d));
        top = std::max(top, std::real(p[j]));
      }
      T total{};
      for (T& x : p) total += x = std::exp(x - top);
      for (std::size_t j = 0; j < p.size(); ++j) {
        const double kept =
            t.dropout.active()
                ? static_cast<double>(t.dropout.factor(static_cast<std::uint32_t>(at / s.m),
                                                       static_cast<std::uint32_t>(at % s.m),
                                                       static_cast<std::uint32_t>(j)))
                : 1.0;
        for (std::size_t c = 0; c < s.e; ++c) {
          y[at * s.e + c] += kept * p[j] / total * t.v[(kv * s.n + j) * s.e + c];
        }
      }
    }
    return y;
  }
};

}  // namespace longspan
