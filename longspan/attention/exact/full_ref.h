// Exact attention from its definition, one pair at a time, for any scalar type: double for values,
// std::complex<double> for gradients. Shared by full and flash.
//
//   S_ij = q_i·k_j/√d + bias_ij,  P = softmax over the visible j,  y_i = Σ_j F_ij·P_ij·v_j
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "longspan/attention/attention.h"

namespace longspan {

// Dense [batch, heads, n, width] tensors; the bias and the masks have the strides of `mask`.
template <class T>
struct FullReference {
  AttentionShape shape;
  Mask mask;
  Dropout dropout;
  std::vector<T> q, k, v;
  std::vector<T> bias;  // the elements behind mask.bias

  const T* row(const std::vector<T>& x, std::size_t plane, std::size_t n, std::size_t i,
               std::size_t width) const {
    return x.data() + (plane * n + i) * width;
  }
  std::size_t kv_plane(std::size_t b, std::size_t h) const {
    return b * shape.kv_heads + h / (shape.heads / shape.kv_heads);
  }
  bool sees(std::size_t b, std::size_t h, std::size_t i, std::size_t j) const {
    if (j >= mask.keys(b, shape.n)) return false;
    if (mask.causal && j + shape.m > i + shape.n) return false;
    return !mask.visible || mask.visible.row(b, h, i)[j] != 0;
  }
  std::size_t bias_index(std::size_t b, std::size_t h, std::size_t i, std::size_t j) const {
    return static_cast<std::size_t>(mask.bias.row(b, h, i) - mask.bias.data) + j;
  }
  double factor(std::size_t b, std::size_t h, std::size_t i, std::size_t j) const {
    if (!dropout.active()) return 1.0;
    return dropout.factor(static_cast<std::uint32_t>(b * shape.heads + h),
                          static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j));
  }

  // P_i·, zeros where hidden.
  std::vector<T> weights(std::size_t b, std::size_t h, std::size_t i) const {
    std::vector<T> p(shape.n, T{});
    const T* qi = row(q, b * shape.heads + h, shape.m, i, shape.d);
    double top = 0.0;
    bool any = false;
    for (std::size_t j = 0; j < shape.n; ++j) {
      if (!sees(b, h, i, j)) continue;
      const T* kj = row(k, kv_plane(b, h), shape.n, j, shape.d);
      T s{};
      for (std::size_t c = 0; c < shape.d; ++c) s += qi[c] * kj[c];
      p[j] = s / std::sqrt(static_cast<double>(shape.d));
      if (mask.bias) p[j] += bias[bias_index(b, h, i, j)];
      top = any ? std::max(top, std::real(p[j])) : std::real(p[j]);
      any = true;
    }
    T sum{};
    for (std::size_t j = 0; j < shape.n; ++j) {
      p[j] = sees(b, h, i, j) ? std::exp(p[j] - top) : T{};
      sum += p[j];
    }
    for (std::size_t j = 0; any && j < shape.n; ++j) p[j] /= sum;
    return p;
  }

  std::vector<T> forward() const {
    std::vector<T> y(shape.batch * shape.heads * shape.m * shape.e, T{});
    for (std::size_t at = 0; at < shape.batch * shape.heads * shape.m; ++at) {
      const std::size_t plane = at / shape.m;
      const std::size_t b = plane / shape.heads;
      const std::size_t h = plane % shape.heads;
      const std::vector<T> p = weights(b, h, at % shape.m);
      for (std::size_t j = 0; j < shape.n; ++j) {
        const T* vj = row(v, kv_plane(b, h), shape.n, j, shape.e);
        const T w = p[j] * factor(b, h, at % shape.m, j);
        for (std::size_t c = 0; c < shape.e; ++c) y[at * shape.e + c] += w * vj[c];
      }
    }
    return y;
  }

  struct Gradients {
    std::vector<T> q, k, v, bias;
  };

  // ∂(Σ dy⊙y)/∂(q, k, v, bias) by the chain rule, row by row.
  Gradients backward(const std::vector<T>& dy) const {
    Gradients g{std::vector<T>(q.size()), std::vector<T>(k.size()), std::vector<T>(v.size()),
                std::vector<T>(bias.size())};
    for (std::size_t at = 0; at < shape.batch * shape.heads * shape.m; ++at) {
      add_row(at / shape.m, at % shape.m, dy.data() + at * shape.e, g);
    }
    return g;
  }

 private:
  void add_row(std::size_t plane, std::size_t i, const T* dyi, Gradients& g) const {
    const std::size_t b = plane / shape.heads;
    const std::size_t h = plane % shape.heads;
    const double scale = 1.0 / std::sqrt(static_cast<double>(shape.d));
    const std::vector<T> p = weights(b, h, i);
    std::vector<T> dp(shape.n, T{});
    T mean{};
    for (std::size_t j = 0; j < shape.n; ++j) {
      const std::size_t at = (kv_plane(b, h) * shape.n + j) * shape.e;
      const double f = factor(b, h, i, j);
      for (std::size_t c = 0; c < shape.e; ++c) {
        dp[j] += f * dyi[c] * v[at + c];
        g.v[at + c] += f * p[j] * dyi[c];
      }
      mean += p[j] * dp[j];
    }
    for (std::size_t j = 0; j < shape.n; ++j) {
      const T ds = p[j] * (dp[j] - mean);
      const std::size_t from = (plane * shape.m + i) * shape.d;
      const std::size_t to = (kv_plane(b, h) * shape.n + j) * shape.d;
      for (std::size_t c = 0; c < shape.d; ++c) {
        g.q[from + c] += scale * ds * k[to + c];
        g.k[to + c] += scale * ds * q[from + c];
      }
      if (mask.bias) g.bias[bias_index(b, h, i, j)] += ds;
    }
  }
};

}  // namespace longspan
