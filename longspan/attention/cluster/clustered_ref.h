// Clustered and improved clustered attention from their definitions, for any scalar type: double
// for values, std::complex<double> for gradients. Clusters and the choice of keys look at real
// parts.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "longspan/attention/cluster/clustered_queries.h"

namespace longspan {

template <class T>
struct ClusteredReference {
  ClusteringConfig config;
  AttentionShape shape;
  std::vector<double> planes;  // [bits, d + 1]
  std::vector<T> q, k, v;      // dense [batch, heads, n, width]
  bool improved = false;
  std::size_t top = 0;  // improved: keys that every query looks at itself

  std::size_t keys(std::size_t b) const {
    return shape.key_lengths.empty() ? shape.n : static_cast<std::size_t>(shape.key_lengths[b]);
  }
  std::size_t real(std::size_t b) const { return shape.m == shape.n ? keys(b) : shape.m; }
  std::size_t kv_plane(std::size_t plane) const {
    const std::size_t h = plane % shape.heads;
    return plane / shape.heads * shape.kv_heads + h / (shape.heads / shape.kv_heads);
  }

  std::vector<std::uint64_t> codes(std::size_t plane) const {
    std::vector<std::uint64_t> result(shape.m, 0);
    for (std::size_t i = 0; i < shape.m; ++i) {
      for (std::size_t bit = 0; bit < config.bits; ++bit) {
        const double* p = planes.data() + bit * (shape.d + 1);
        double y = -p[shape.d];
        for (std::size_t c = 0; c < shape.d; ++c) {
          y += p[c] * std::real(q[(plane * shape.m + i) * shape.d + c]);
        }
        if (y > 0.0) result[i] |= std::uint64_t{1} << bit;
      }
    }
    return result;
  }

  // The cluster of every query.
  std::vector<std::size_t> assignment(std::size_t plane) const {
    const std::vector<std::uint64_t> code = codes(plane);
    const std::size_t count = real(plane / shape.heads);
    const std::size_t used = std::min({config.clusters, shape.m, count});
    std::vector<std::size_t> cluster(shape.m, 0);
    if (used == 0) return cluster;
    std::vector<std::uint64_t> centre(used);
    for (std::size_t j = 0; j < used; ++j) centre[j] = code[j * count / used];
    auto nearest = [&](std::size_t i) {
      std::size_t best = 0;
      for (std::size_t j = 1; j < used; ++j) {
        if (std::popcount(code[i] ^ centre[j]) < std::popcount(code[i] ^ centre[best])) best = j;
      }
      return best;
    };
    if (count <= config.clusters) {
      std::iota(cluster.begin(), cluster.begin() + static_cast<std::ptrdiff_t>(count), 0U);
    } else {
      for (std::size_t l = 0; l < config.iterations; ++l) {
        for (std::size_t i = 0; i < count; ++i) cluster[i] = nearest(i);
        for (std::size_t j = 0; j < used; ++j)
          centre[j] = majority(code, cluster, count, j, centre[j]);
      }
    }
    for (std::size_t i = count; i < shape.m; ++i) cluster[i] = nearest(i);
    return cluster;
  }

  // Row i of the effective matrix.
  std::vector<T> weights(std::size_t plane, std::size_t i,
                         const std::vector<std::size_t>& cluster) const {
    const std::size_t count = keys(plane / shape.heads);
    const std::vector<T> mean = centroid(plane, cluster[i], cluster);
    std::vector<T> row = softmax(scores(plane, mean, count));
    if (!improved) return row;
    const std::vector<std::size_t> chosen = largest(plane, mean, count);
    const std::vector<T> query(
        q.begin() + static_cast<std::ptrdiff_t>((plane * shape.m + i) * shape.d),
        q.begin() + static_cast<std::ptrdiff_t>((plane * shape.m + i + 1) * shape.d));
    const std::vector<T> mine = scores(plane, query, count);
    T mass{};
    T sum{};
    double most = -1e300;
    for (const std::size_t l : chosen) most = std::max(most, std::real(mine[l]));
    for (const std::size_t l : chosen) {
      mass += row[l];
      sum += visible(i, l) ? std::exp(mine[l] - most) : T{};
    }
    if (shape.causal) {
      std::fill(row.begin(), row.end(), T{});
      mass = T{1.0};
    }
    for (const std::size_t l : chosen) {
      row[l] = visible(i, l) ? mass * std::exp(mine[l] - most) / sum : T{};
    }
    return row;
  }

  std::vector<T> forward() const {
    std::vector<T> y(shape.batch * shape.heads * shape.m * shape.e, T{});
    for (std::size_t plane = 0; plane < shape.batch * shape.heads; ++plane) {
      const std::vector<std::size_t> cluster = assignment(plane);
      for (std::size_t i = 0; i < shape.m; ++i) {
        const std::vector<T> row = weights(plane, i, cluster);
        for (std::size_t j = 0; j < row.size(); ++j) {
          for (std::size_t c = 0; c < shape.e; ++c) {
            y[(plane * shape.m + i) * shape.e + c] +=
                row[j] * v[(kv_plane(plane) * shape.n + j) * shape.e + c];
          }
        }
      }
    }
    return y;
  }

  static std::vector<T> softmax(std::vector<T> s) {
    double most = -1e300;
    for (const T& x : s) most = std::max(most, std::real(x));
    T sum{};
    for (T& x : s) sum += x = std::exp(x - most);
    for (T& x : s) x /= sum;
    return s;
  }

  // x·k_j/√d of the real keys.
  std::vector<T> scores(std::size_t plane, const std::vector<T>& x, std::size_t count) const {
    std::vector<T> s(count, T{});
    for (std::size_t j = 0; j < count; ++j) {
      for (std::size_t c = 0; c < shape.d; ++c) {
        s[j] += x[c] * k[(kv_plane(plane) * shape.n + j) * shape.d + c];
      }
      s[j] /= std::sqrt(static_cast<double>(shape.d));
    }
    return s;
  }

 private:
  bool visible(std::size_t i, std::size_t j) const {
    return !shape.causal || j + shape.m <= i + shape.n;
  }

  static std::uint64_t majority(const std::vector<std::uint64_t>& code,
                                const std::vector<std::size_t>& cluster, std::size_t count,
                                std::size_t j, std::uint64_t before) {
    std::uint64_t centre = 0;
    std::size_t size = 0;
    for (std::size_t bit = 0; bit < 64; ++bit) {
      std::size_t ones = 0;
      size = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (cluster[i] != j) continue;
        ++size;
        ones += code[i] >> bit & 1U;
      }
      if (2 * ones > size) centre |= std::uint64_t{1} << bit;
    }
    return size == 0 ? before : centre;
  }

  std::vector<T> centroid(std::size_t plane, std::size_t j,
                          const std::vector<std::size_t>& cluster) const {
    std::vector<T> mean(shape.d, T{});
    double size = 0.0;
    for (std::size_t i = 0; i < real(plane / shape.heads); ++i) {
      if (cluster[i] != j) continue;
      size += 1.0;
      for (std::size_t c = 0; c < shape.d; ++c) mean[c] += q[(plane * shape.m + i) * shape.d + c];
    }
    for (T& x : mean) x /= std::max(size, 1.0);
    return mean;
  }

  std::vector<std::size_t> largest(std::size_t plane, const std::vector<T>& mean,
                                   std::size_t count) const {
    const std::vector<T> s = scores(plane, mean, count);
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::real(s[a]) > std::real(s[b]);
    });
    order.resize(std::min(top, count));
    return order;
  }
};

}  // namespace longspan
