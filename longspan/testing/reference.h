// The transformer's pieces again, from their equations, for any scalar type.
//
// Nothing here is fast and nothing is shared with the engine but the random numbers of dropout.
// With S = double it gives values; with S = std::complex<double> derivatives: ∂f/∂x = Im f(x +
// iε)/ε for ε = 1e-30, to the last digit, because nothing is subtracted. Comparisons look at the
// real part, so the derivative of a maximum is that of the larger operand.
#pragma once

#include <cassert>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numbers>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/random.h"

namespace longspan::testing {

using Complex = std::complex<double>;
inline constexpr double kStep = 1e-30;

inline double real_part(double x) { return x; }
inline double real_part(const Complex& x) { return x.real(); }

template <class S>
struct Tensor {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<S> data;

  Tensor() = default;
  Tensor(std::size_t rows_, std::size_t cols_) : rows(rows_), cols(cols_), data(rows_ * cols_) {}
  S& operator()(std::size_t i, std::size_t j) { return data[i * cols + j]; }
  const S& operator()(std::size_t i, std::size_t j) const { return data[i * cols + j]; }
};

// Named tensors as the engine holds them. One element may be moved by iε; which names were read is
// remembered, so that a test can demand that all of them were.
class Weights {
 public:
  void set(const std::string& name, std::size_t rows, std::size_t cols,
           std::span<const float> values) {
    tensors_[name] = {rows, cols, {values.begin(), values.end()}};
  }
  void move(const std::string& name, std::size_t index) {
    moved_ = name;
    index_ = index;
  }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  const std::set<std::string>& read() const { return read_; }

  template <class S>
  Tensor<S> get(const std::string& name) const {
    const Stored& stored = tensors_.at(name);
    read_.insert(name);
    Tensor<S> t(stored.rows, stored.cols);
    for (std::size_t i = 0; i < t.data.size(); ++i) t.data[i] = S{stored.values[i]};
    if constexpr (std::is_same_v<S, Complex>) {
      if (name == moved_) t.data[index_] += Complex(0.0, kStep);
    }
    return t;
  }
  // The empty tensor where there is none: a layer without bias.
  template <class S>
  Tensor<S> get_if(const std::string& name) const {
    return has(name) ? get<S>(name) : Tensor<S>{};
  }

 private:
  struct Stored {
    std::size_t rows = 0;
    std::size_t cols = 0;
    std::vector<double> values;
  };
  std::map<std::string, Stored> tensors_;
  mutable std::set<std::string> read_;
  std::string moved_;
  std::size_t index_ = 0;
};

// y = x·Wᵀ + b; b may be empty.
template <class S>
Tensor<S> linear(const Tensor<S>& x, const Tensor<S>& w, const Tensor<S>& b) {
  assert(x.cols == w.cols);
  Tensor<S> y(x.rows, w.rows);
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t o = 0; o < w.rows; ++o) {
      S sum = b.data.empty() ? S{0.0} : b.data[o];
      for (std::size_t c = 0; c < x.cols; ++c) sum += x(i, c) * w(o, c);
      y(i, o) = sum;
    }
  }
  return y;
}
template <class S>
Tensor<S> linear(const Weights& weights, const std::string& name, const Tensor<S>& x) {
  return linear(x, weights.get<S>(name + ".weight"), weights.get_if<S>(name + ".bias"));
}

template <class S>
Tensor<S> add(const Tensor<S>& a, const Tensor<S>& b) {
  assert(a.rows == b.rows && a.cols == b.cols);
  Tensor<S> y = a;
  for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] += b.data[i];
  return y;
}

// kind "layer": γ⊙(x − μ)/√(σ² + ε) + β;  "rms": γ⊙x/√(mean x² + ε).
template <class S>
Tensor<S> norm(const Weights& weights, const std::string& name, std::string_view kind,
               double epsilon, const Tensor<S>& x) {
  const Tensor<S> gamma = weights.get<S>(name + ".weight");
  const Tensor<S> beta = kind == "layer" ? weights.get_if<S>(name + ".bias") : Tensor<S>{};
  Tensor<S> y(x.rows, x.cols);
  const S d{static_cast<double>(x.cols)};
  for (std::size_t i = 0; i < x.rows; ++i) {
    S mean{0.0};
    if (kind == "layer") {
      for (std::size_t j = 0; j < x.cols; ++j) mean += x(i, j) / d;
    }
    S square{0.0};
    for (std::size_t j = 0; j < x.cols; ++j) square += (x(i, j) - mean) * (x(i, j) - mean) / d;
    const S deviation = std::sqrt(square + S{epsilon});
    for (std::size_t j = 0; j < x.cols; ++j) {
      y(i, j) = gamma.data[j] * (x(i, j) - mean) / deviation;
      if (!beta.data.empty()) y(i, j) += beta.data[j];
    }
  }
  return y;
}

inline double erf_of(double x) { return std::erf(x); }
// First order in the imaginary part, which is all that ε = 1e-30 leaves.
inline Complex erf_of(const Complex& x) {
  const double slope = 2.0 / std::sqrt(std::numbers::pi) * std::exp(-x.real() * x.real());
  return {std::erf(x.real()), slope * x.imag()};
}

template <class S>
S activation(std::string_view name, const S& x) {
  if (name == "relu") return real_part(x) > 0.0 ? x : S{0.0};
  if (name == "gelu") return x * 0.5 * (1.0 + erf_of(x / std::numbers::sqrt2));
  if (name == "gelu-tanh") {
    return 0.5 * x *
           (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
  if (name == "silu") return x / (1.0 + std::exp(-x));
  if (name == "clamped-silu") {
    const S c = real_part(x) > 7.0 ? S{7.0} : x;
    return c / (1.0 + std::exp(-1.702 * c));
  }
  if (name == "quick-gelu") return x / (1.0 + std::exp(-1.702 * x));
  if (name == "relu2") return real_part(x) > 0.0 ? x * x : S{};
  assert(name == "tanh");
  return std::tanh(x);
}

// What a gate multiplies.
template <class S>
S gated_other(std::string_view name, const S& u) {
  if (name != "clamped-silu") return u;
  const bool within = std::abs(real_part(u)) <= 7.0;
  return (within ? u : S{real_part(u) > 0.0 ? 7.0 : -7.0}) + 1.0;
}

// W₂·f(W₁·x + b₁) + b₂, or W₂·(f(gate)⊙up) where [gate|up] = W₁·x + b₁.
template <class S>
Tensor<S> feed_forward(const Weights& weights, const std::string& name, std::string_view f,
                       bool gated, const Tensor<S>& x) {
  const Tensor<S> z = linear(weights, name + ".in", x);
  const std::size_t hidden = gated ? z.cols / 2 : z.cols;
  Tensor<S> h(z.rows, hidden);
  for (std::size_t i = 0; i < z.rows; ++i) {
    for (std::size_t j = 0; j < hidden; ++j) {
      h(i, j) = activation(f, z(i, j));
      if (gated) h(i, j) *= gated_other(f, z(i, hidden + j));
    }
  }
  return linear(weights, name + ".out", h);
}

inline double sinusoid(std::size_t position, std::size_t column, std::size_t d) {
  const double pair = static_cast<double>(column - column % 2);
  const double angle =
      static_cast<double>(position) / std::pow(10000.0, pair / static_cast<double>(d));
  return column % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

// Rotates pairs of columns of each head by (row's position)·base^(−2i/d).
template <class S>
void rotate_heads(Tensor<S>& x, std::size_t length, std::size_t heads, double base,
                  bool interleaved) {
  const std::size_t d = x.cols / heads;
  for (std::size_t r = 0; r < x.rows; ++r) {
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t i = 0; i < d / 2; ++i) {
        const double angle = static_cast<double>(r % length) *
                             std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(d));
        S& a = x(r, h * d + (interleaved ? 2 * i : i));
        S& b = x(r, h * d + (interleaved ? 2 * i + 1 : i + d / 2));
        const S turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = turned;
      }
    }
  }
}

// The first 2·f.size() channels of each head, by (row's position)·f_i and longer by `amplitude`.
template <class S>
void rotate_heads(Tensor<S>& x, std::size_t length, std::size_t heads, std::span<const double> f,
                  double amplitude, bool interleaved) {
  const std::size_t d = x.cols / heads;
  for (std::size_t r = 0; r < x.rows; ++r) {
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t i = 0; i < f.size(); ++i) {
        const double angle = static_cast<double>(r % length) * f[i];
        S& a = x(r, h * d + (interleaved ? 2 * i : i));
        S& b = x(r, h * d + (interleaved ? 2 * i + 1 : i + f.size()));
        const S turned = amplitude * (a * std::cos(angle) - b * std::sin(angle));
        b = amplitude * (a * std::sin(angle) + b * std::cos(angle));
        a = turned;
      }
    }
  }
}

struct AttentionSetting {
  std::size_t batch = 1;
  std::size_t heads = 1;
  std::size_t kv_heads = 1;
  bool causal = false;
  std::span<const std::int32_t> key_lengths;
  Dropout dropout;
};

// softmax(q·kᵀ/√d)·v for each head in the columns of q, k and v; heads/kv_heads query heads read
// one key head. A query that sees nothing gives zeros.
template <class S>
Tensor<S> attend(const AttentionSetting& a, const Tensor<S>& q, const Tensor<S>& k,
                 const Tensor<S>& v) {
  const std::size_t m = q.rows / a.batch;
  const std::size_t n = k.rows / a.batch;
  const std::size_t d = q.cols / a.heads;
  Tensor<S> y(q.rows, q.cols);
  std::vector<S> p(n);
  for (std::size_t b = 0; b < a.batch; ++b) {
    const std::size_t keys = a.key_lengths.empty() ? n : static_cast<std::size_t>(a.key_lengths[b]);
    for (std::size_t h = 0; h < a.heads; ++h) {
      const std::size_t g = h / (a.heads / a.kv_heads);
      for (std::size_t i = 0; i < m; ++i) {
        S sum{0.0};
        for (std::size_t j = 0; j < n; ++j) {
          p[j] = S{0.0};
          if (j >= keys || (a.causal && j + m > i + n)) continue;
          for (std::size_t c = 0; c < d; ++c) {
            p[j] += q(b * m + i, h * d + c) * k(b * n + j, g * d + c);
          }
          p[j] = std::exp(p[j] / std::sqrt(static_cast<double>(d)));
          sum += p[j];
        }
        if (real_part(sum) == 0.0) continue;
        const auto plane = static_cast<std::uint32_t>(b * a.heads + h);
        for (std::size_t j = 0; j < n; ++j) {
          S weight = p[j] / sum;
          if (a.dropout.active()) {
            weight *= static_cast<double>(a.dropout.factor(plane, static_cast<std::uint32_t>(i),
                                                           static_cast<std::uint32_t>(j)));
          }
          for (std::size_t c = 0; c < d; ++c) {
            y(b * m + i, h * d + c) += weight * v(b * n + j, g * d + c);
          }
        }
      }
    }
  }
  return y;
}

template <class S>
Tensor<S> columns(const Tensor<S>& x, std::size_t first, std::size_t count) {
  Tensor<S> y(x.rows, count);
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < count; ++j) y(i, j) = x(i, first + j);
  }
  return y;
}

// Every `width` columns by themselves.
template <class S>
Tensor<S> norm_parts(const Weights& weights, const std::string& name, std::string_view kind,
                     double epsilon, const Tensor<S>& x, std::size_t width) {
  Tensor<S> y(x.rows, x.cols);
  for (std::size_t first = 0; first < x.cols; first += width) {
    const Tensor<S> part = norm(weights, name, kind, epsilon, columns(x, first, width));
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t j = 0; j < width; ++j) y(i, first + j) = part(i, j);
    }
  }
  return y;
}

template <class S>
Tensor<S> drop(const Dropout& dropout, Tensor<S> x) {
  if (!dropout.active()) return x;
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) {
      x(i, j) *= static_cast<double>(
          dropout.factor(0, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j)));
    }
  }
  return x;
}

// Σ over targets that are not −1 of −log softmax(x)[target].
template <class S>
S cross_entropy_of(const Tensor<S>& x, std::span<const std::int32_t> targets) {
  assert(targets.size() == x.rows);
  S loss{0.0};
  for (std::size_t i = 0; i < x.rows; ++i) {
    if (targets[i] < 0) continue;
    S sum{0.0};
    for (std::size_t j = 0; j < x.cols; ++j) sum += std::exp(x(i, j));
    loss += std::log(sum) - x(i, static_cast<std::size_t>(targets[i]));
  }
  return loss;
}

// Σ over answers that are not −1 of −log σ(x) for yes, −log σ(−x) for no.
template <class S>
S binary_cross_entropy_of(const Tensor<S>& x, std::span<const std::int32_t> answers) {
  assert(answers.size() == x.data.size());
  S loss{0.0};
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i] < 0) continue;
    loss += std::log(1.0 + std::exp(answers[i] == 1 ? -x.data[i] : x.data[i]));
  }
  return loss;
}

// Σ over sequences b and columns c whose target is not −1 of −log softmax(x[b·length + i, c])[target]
// over the first places(b) rows i.
template <class S, class Places>
S span_loss_of(const Tensor<S>& x, std::size_t length, const Places& places,
               std::span<const std::int32_t> targets) {
  S loss{0.0};
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::size_t first = i / x.cols * length;
    const std::size_t c = i % x.cols;
    if (targets[i] < 0) continue;
    S sum{0.0};
    for (std::size_t at = 0; at < places(i / x.cols); ++at) sum += std::exp(x(first + at, c));
    loss += std::log(sum) - x(first + static_cast<std::size_t>(targets[i]), c);
  }
  return loss;
}

// Σ (x − value)² over the values that are not NaN.
template <class S>
S squared_error_of(const Tensor<S>& x, std::span<const float> values) {
  assert(values.size() == x.data.size());
  S loss{0.0};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    const S difference = x.data[i] - S{values[i]};
    loss += difference * difference;
  }
  return loss;
}

}  // namespace longspan::testing
