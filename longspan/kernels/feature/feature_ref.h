// Attention by features from its definition, one pair at a time, for any scalar type: double for
// values, std::complex<double> for gradients. The effective matrix is written out.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "longspan/kernels/feature/feature_scan.h"

namespace longspan {

// Ω as a matrix [rows, d], whatever its form.
inline std::vector<double> dense_projection(const FeatureProjection& omega, std::size_t d) {
  std::vector<double> dense(omega.rows * d);
  const std::size_t p = FeatureProjection::padded(d);
  for (std::size_t r = 0; r < omega.rows; ++r) {
    if (!omega.hadamard) {
      std::copy_n(omega.dense.row_data(r), d, dense.begin() + static_cast<std::ptrdiff_t>(r * d));
      continue;
    }
    // Row r of H·D₃·H·D₂·H·D₁, from the left.
    const float* shared = omega.signs + 2 * (r / p / FeatureProjection::kSharing) * p;
    const float* own = omega.signs + (2 * omega.rotations(d) + r / p) * p;
    const float* signs[] = {shared, shared + p, own};
    auto sign = [](std::size_t i, std::size_t j) {
      return std::popcount(i & j) % 2 == 0 ? 1.0 : -1.0;
    };
    std::vector<double> row(p);
    for (std::size_t j = 0; j < p; ++j) row[j] = sign(r % p, j) * signs[2][j];
    for (int k = 1; k >= 0; --k) {
      std::vector<double> next(p, 0.0);
      for (std::size_t j = 0; j < p; ++j) {
        for (std::size_t i = 0; i < p; ++i) next[j] += row[i] * sign(i, j);
        next[j] *= signs[k][j];
      }
      row = next;
    }
    for (std::size_t c = 0; c < d; ++c) dense[r * d + c] = row[c] * omega.norms[r];
  }
  return dense;
}

// Dense [batch, heads, n, width] tensors.
template <class T>
struct FeatureReference {
  FeatureMap map;
  FeatureShape shape;
  std::vector<T> q, k, v;

  // φ before any shift; kExp and kShifted as logarithms.
  std::vector<T> features(const T* x, const std::vector<double>& omega) const {
    const std::size_t d = shape.d;
    std::vector<T> u;
    T norm{};
    for (std::size_t c = 0; c < d; ++c) {
      const T scaled = static_cast<double>(map.scale) * x[c];
      if (map.projection.rows == 0) u.push_back(scaled);
      norm += 0.5 * scaled * scaled;
    }
    for (std::size_t r = 0; r < map.projection.rows; ++r) {
      T sum{};
      for (std::size_t c = 0; c < d; ++c) {
        sum += static_cast<double>(map.scale) * omega[r * d + c] * x[c];
      }
      u.push_back(sum);
    }
    for (std::size_t r = 0; map.mirrored && r < map.projection.rows; ++r) u.push_back(-u[r]);
    const double epsilon = map.epsilon;
    for (T& f : u) {
      if (map.kind == FeatureKind::kElu) f = std::real(f) > 0.0 ? f + 1.0 : std::exp(f);
      if (map.kind == FeatureKind::kRelu) f = (std::real(f) > 0.0 ? f : T{}) + epsilon;
      if (map.subtracts_norm()) f -= norm;
    }
    return u;
  }

  // A_i· of one head: what y_i = Σ_j A_ij·v_j uses.
  std::vector<std::vector<T>> matrix(std::size_t plane) const {
    const std::size_t b = plane / shape.heads;
    const std::size_t kv =
        b * shape.kv_heads + plane % shape.heads / (shape.heads / shape.kv_heads);
    const std::vector<double> omega = dense_projection(map.projection, shape.d);
    std::vector<std::vector<T>> fk;
    std::vector<std::vector<T>> fq;
    for (std::size_t j = 0; j < shape.keys(b); ++j) {
      fk.push_back(features(k.data() + (kv * shape.n + j) * shape.d, omega));
    }
    for (std::size_t i = 0; i < shape.m; ++i) {
      fq.push_back(features(q.data() + (plane * shape.m + i) * shape.d, omega));
    }
    exponentiate(fq, fk, plane, kv, omega);
    std::vector<std::vector<T>> a(shape.m, std::vector<T>(shape.n));
    for (std::size_t i = 0; i < shape.m; ++i) fill_row(fq[i], fk, i, a[i]);
    return a;
  }

  std::vector<T> forward() const {
    std::vector<T> y(shape.batch * shape.heads * shape.m * shape.e);
    for (std::size_t plane = 0; plane < shape.batch * shape.heads; ++plane) {
      const std::size_t kv = plane / shape.heads * shape.kv_heads +
                             plane % shape.heads / (shape.heads / shape.kv_heads);
      const auto a = matrix(plane);
      for (std::size_t i = 0; i < shape.m; ++i) {
        for (std::size_t j = 0; j < shape.n; ++j) {
          for (std::size_t c = 0; c < shape.e; ++c) {
            y[(plane * shape.m + i) * shape.e + c] += a[i][j] * v[(kv * shape.n + j) * shape.e + c];
          }
        }
      }
    }
    return y;
  }

 private:
  // The largest Ω·x' over features, a constant in the derivative.
  double largest(const T* x, const std::vector<double>& omega) const {
    FeatureReference raw = {map, shape, {}, {}, {}};
    raw.map.kind = FeatureKind::kExp;
    raw.map.norm = false;
    double most = std::numeric_limits<double>::lowest();
    for (const T& u : raw.features(x, omega)) most = std::max(most, std::real(u));
    return most;
  }

  void exponentiate(std::vector<std::vector<T>>& fq, std::vector<std::vector<T>>& fk,
                    std::size_t plane, std::size_t kv, const std::vector<double>& omega) const {
    if (map.kind == FeatureKind::kExp) {
      for (auto* tokens : {&fq, &fk}) {
        for (auto& token : *tokens) {
          for (T& f : token) f = std::exp(f);
        }
      }
    }
    if (map.kind != FeatureKind::kShifted) return;
    double shift = std::numeric_limits<double>::lowest();
    for (std::size_t j = 0; j < fk.size(); ++j) {
      shift = std::max(shift, largest(k.data() + (kv * shape.n + j) * shape.d, omega));
    }
    const double epsilon = map.epsilon;
    for (auto& token : fk) {
      for (T& f : token) f = std::exp(f - shift) + epsilon;
    }
    for (std::size_t i = 0; i < fq.size(); ++i) {
      const double most = largest(q.data() + (plane * shape.m + i) * shape.d, omega);
      for (T& f : fq[i]) f = std::exp(f - most) + epsilon;
    }
  }

  void fill_row(const std::vector<T>& fq, const std::vector<std::vector<T>>& fk, std::size_t i,
                std::vector<T>& row) const {
    const auto sees = [&](std::size_t j) { return !shape.causal || j + shape.m <= i + shape.n; };
    T total{};
    for (std::size_t f = 0; f < fq.size(); ++f) {
      T sum{};
      for (std::size_t j = 0; j < fk.size(); ++j) sum += sees(j) ? fk[j][f] : T{};
      if (shape.causal) sum += static_cast<double>(map.sum_epsilon);
      for (std::size_t j = 0; j < fk.size(); ++j) {
        if (!sees(j)) continue;
        row[j] +=
            fq[f] * fk[j][f] * (map.over_sequence ? static_cast<double>(map.gain) / sum : T{1.0});
      }
      total += map.over_sequence ? fq[f] : fq[f] * sum;
    }
    total += static_cast<double>(map.denominator_epsilon);
    for (T& x : row) x = std::real(total) > 0.0 ? x / total : T{};
  }
};

}  // namespace longspan
