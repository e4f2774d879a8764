// Latent attention again, from its equations, for any scalar type.
#pragma once

#include <string>
#include <vector>

#include "longspan/base/random.h"
#include "longspan/layers/latent_attention.h"
#include "longspan/testing/reference.h"

namespace longspan::testing {

struct LatentReference {
  LatentAttentionConfig config;
  std::string name;
  std::size_t heads = 1;
  bool causal = false;
  // Of rotary positions; 0: none.
  double base = 0.0;
  bool interleaved = true;
  Dropout dropout;
  // The rows of each sequence, of which so many are real.
  std::vector<std::size_t> rows;
  std::vector<std::size_t> real;
};

namespace latent_reference {

// Channels [first, first + count) of every head.
template <class S>
Tensor<S> part(const Tensor<S>& x, std::size_t heads, std::size_t first, std::size_t count) {
  Tensor<S> y(x.rows, heads * count);
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t c = 0; c < y.cols; ++c) {
      y(i, c) = x(i, c / count * (x.cols / heads) + first + c % count);
    }
  }
  return y;
}

// One sequence of rows, all of which are there; `plane` is that of its first head.
template <class S>
Tensor<S> sequence(const LatentReference& l, const Weights& w, const Tensor<S>& x, std::size_t real,
                   std::size_t plane) {
  const LatentAttentionConfig& c = l.config;
  const double epsilon = 1e-6;
  Tensor<S> q;
  if (c.query_rank == 0) {
    q = linear(w, l.name + ".query", x);
  } else {
    const Tensor<S> low = linear(w, l.name + ".query_down", x);
    q = linear(w, l.name + ".query_up", norm(w, l.name + ".query_norm", "rms", epsilon, low));
  }
  const Tensor<S> low = linear(w, l.name + ".key_down", x);
  const Tensor<S> latent = norm(w, l.name + ".key_norm", "rms", epsilon, columns(low, 0, c.rank));
  const Tensor<S> up = linear(w, l.name + ".key_up", latent);
  const Tensor<S> q_nope = part(q, l.heads, 0, c.nope);
  const Tensor<S> k_nope = part(up, l.heads, 0, c.nope);
  const Tensor<S> v = part(up, l.heads, c.nope, c.value);
  Tensor<S> q_rope = part(q, l.heads, c.nope, c.rope);
  Tensor<S> k_rope = columns(low, c.rank, c.rope);
  if (l.base > 0.0 && c.rope > 0) {
    rotate_heads(q_rope, x.rows, l.heads, l.base, l.interleaved);
    rotate_heads(k_rope, x.rows, 1, l.base, l.interleaved);
  }
  const double scale = c.scale > 0.0 ? c.scale : 1.0 / std::sqrt(double(c.nope + c.rope));
  Tensor<S> y(x.rows, l.heads * c.value);
  for (std::size_t h = 0; h < l.heads; ++h) {
    for (std::size_t i = 0; i < x.rows; ++i) {
      S sum{0.0};
      std::vector<S> p(x.rows);
      for (std::size_t j = 0; j < std::min(real, l.causal ? i + 1 : x.rows); ++j) {
        for (std::size_t a = 0; a < c.nope; ++a) {
          p[j] += q_nope(i, h * c.nope + a) * k_nope(j, h * c.nope + a);
        }
        for (std::size_t a = 0; a < c.rope; ++a) p[j] += q_rope(i, h * c.rope + a) * k_rope(j, a);
        p[j] = std::exp(scale * p[j]);
        sum += p[j];
      }
      for (std::size_t j = 0; j < x.rows && real_part(sum) != 0.0; ++j) {
        S weight = p[j] / sum;
        if (l.dropout.active()) {
          weight *= double(
              l.dropout.factor(std::uint32_t(plane + h), std::uint32_t(i), std::uint32_t(j)));
        }
        for (std::size_t a = 0; a < c.value; ++a) {
          y(i, h * c.value + a) += weight * v(j, h * c.value + a);
        }
      }
    }
  }
  return linear(w, l.name + ".out", y);
}

}  // namespace latent_reference

template <class S>
Tensor<S> latent_attention(const LatentReference& l, const Weights& w, const Tensor<S>& x) {
  Tensor<S> y;
  std::size_t first = 0;
  for (std::size_t b = 0; b < l.rows.size(); ++b) {
    Tensor<S> own(l.rows[b], x.cols);
    std::copy_n(x.data.begin() + std::ptrdiff_t(first * x.cols), own.data.size(), own.data.begin());
    const Tensor<S> out = latent_reference::sequence(l, w, own, l.real[b], b * l.heads);
    y.cols = out.cols;
    y.rows += out.rows;
    y.data.insert(y.data.end(), out.data.begin(), out.data.end());
    first += l.rows[b];
  }
  return y;
}

}  // namespace longspan::testing
