// Linear attention from its definition, with its matrix, for any scalar type; and as the recurrence
// that a causal sequence is.
#pragma once

#include <vector>

#include "longspan/attention/feature/linear_attention.h"
#include "longspan/kernels/feature/feature_ref.h"

namespace longspan {

inline FeatureMap linear_map(const LinearAttentionConfig& config, std::size_t d) {
  FeatureMap map;
  if (config.features == LinearFeatures::kSoftmax) {
    map.kind = FeatureKind::kExp;
    map.over_sequence = true;
    map.gain = 1.0F / std::sqrt(static_cast<float>(d));
  } else {
    map.denominator_epsilon = config.epsilon;
  }
  return map;
}

// Tensors has shape, q, k and v in a scalar type.
template <class Tensors>
auto linear_reference(const LinearAttentionConfig& config, const Tensors& t) {
  using T = typename decltype(t.q)::value_type;
  return FeatureReference<T>{linear_map(config, t.shape.d), feature_shape(t.shape), t.q, t.k, t.v}
      .forward();
}

// S_i = S_{i−1} + φ(k_i)·v_iᵀ, z_i = z_{i−1} + φ(k_i), y_i = S_iᵀφ(q_i)/(z_i·φ(q_i) + ε): one head.
inline std::vector<double> linear_recurrence(double epsilon, std::size_t n, std::size_t d,
                                             std::size_t e, const std::vector<double>& q,
                                             const std::vector<double>& k,
                                             const std::vector<double>& v) {
  auto phi = [](double x) { return x > 0.0 ? x + 1.0 : std::exp(x); };
  std::vector<double> s(d * e);
  std::vector<double> z(d);
  std::vector<double> y(n * e);
  for (std::size_t i = 0; i < n; ++i) {
    double total = epsilon;
    for (std::size_t a = 0; a < d; ++a) {
      const double fk = phi(k[i * d + a]);
      const double fq = phi(q[i * d + a]);
      z[a] += fk;
      total += fq * z[a];
      for (std::size_t c = 0; c < e; ++c) {
        s[a * e + c] += fk * v[i * e + c];
        y[i * e + c] += fq * s[a * e + c];
      }
    }
    for (std::size_t c = 0; c < e; ++c) y[i * e + c] /= total;
  }
  return y;
}

}  // namespace longspan
