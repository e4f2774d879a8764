// Disentangled attention from its definition, for any scalar type.
#pragma once

#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "longspan/attention/position/deberta.h"

namespace longspan {

struct DebertaReference {
  const DebertaAttention& attention;

  // R, normalised if asked.
  template <class T, class Tensors>
  std::vector<T> table(const Tensors& t, std::size_t d_model) const {
    const DebertaConfig& c = attention.config();
    std::vector<T> r = t.parameters.at("stack.relative");
    for (std::size_t row = 0; c.norm && row < attention.rows(); ++row) {
      T* x = r.data() + row * d_model;
      T mean{}, variance{};
      for (std::size_t i = 0; i < d_model; ++i) mean += x[i] / static_cast<double>(d_model);
      for (std::size_t i = 0; i < d_model; ++i) {
        variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(d_model);
      }
      for (std::size_t i = 0; i < d_model; ++i) {
        x[i] = (x[i] - mean) / std::sqrt(variance + static_cast<double>(c.epsilon)) *
                   t.parameters.at("stack.relative_norm.gamma")[i] +
               t.parameters.at("stack.relative_norm.beta")[i];
      }
    }
    return r;
  }

  // [2k, width]: the table through a projection.
  template <class T, class Tensors>
  std::vector<T> project(const Tensors& t, const std::vector<T>& table, const std::string& name,
                         std::size_t width) const {
    const auto& w = t.parameters.at("attention.position_" + name + ".weight");
    const auto bias = t.parameters.find("attention.position_" + name + ".bias");
    const std::size_t d_model = w.size() / width;
    std::vector<T> out(attention.rows() * width);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (bias != t.parameters.end()) out[i] = bias->second[i % width];
      for (std::size_t c = 0; c < d_model; ++c) {
        out[i] += table[i / width * d_model + c] * w[i % width * d_model + c];
      }
    }
    return out;
  }

  template <class T, template <class> class Tensors>
  std::vector<T> operator()(const Tensors<T>& t) const {
    const DebertaConfig& c = attention.config();
    const AttentionShape& s = t.shape;
    const std::size_t width = s.heads * s.d;
    const std::vector<T> r = table<T>(t, width);
    const std::vector<T> kr = c.c2p ? project(t, r, "key", width) : std::vector<T>();
    const std::vector<T> qr = c.p2c ? project(t, r, "query", width) : std::vector<T>();
    const double scale =
        1.0 / std::sqrt(static_cast<double>(s.d * (1 + (c.c2p ? 1 : 0) + (c.p2c ? 1 : 0))));
    std::vector<T> y(s.batch * s.heads * s.m * s.e, T{});
    for (std::size_t row = 0; row < s.batch * s.heads * s.m; ++row) {
      const std::size_t plane = row / s.m;
      const std::size_t h = plane % s.heads;
      const std::size_t position = row % s.m + s.n - s.m;
      const std::size_t length = t.mask.keys(plane / s.heads, s.n);
      if (position >= length) continue;
      const std::size_t end = s.causal ? std::min(position + 1, length) : length;
      std::vector<T> p(end);
      double top = -1e300;
      for (std::size_t j = 0; j < end; ++j) {
        const auto b = static_cast<std::size_t>(attention.bucket(
            static_cast<std::ptrdiff_t>(position) - static_cast<std::ptrdiff_t>(j)));
        T sum{};
        for (std::size_t x = 0; x < s.d; ++x) {
          const T q = t.q[row * s.d + x];
          const T k = t.k[(plane * s.n + j) * s.d + x];
          sum += q * k;
          if (c.c2p) sum += q * kr[b * width + h * s.d + x];
          if (c.p2c) sum += k * qr[b * width + h * s.d + x];
        }
        p[j] = sum * scale;
        top = std::max(top, std::real(p[j]));
      }
      T total{};
      for (T& x : p) total += x = std::exp(x - top);
      for (std::size_t j = 0; j < end; ++j) {
        const double kept =
            t.dropout.active()
                ? static_cast<double>(t.dropout.factor(static_cast<std::uint32_t>(plane),
                                                       static_cast<std::uint32_t>(row % s.m),
                                                       static_cast<std::uint32_t>(j)))
                : 1.0;
        for (std::size_t x = 0; x < s.e; ++x) {
          y[row * s.e + x] += kept * p[j] / total * t.v[(plane * s.n + j) * s.e + x];
        }
      }
    }
    return y;
  }
};

}  // namespace longspan
