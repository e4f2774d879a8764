// Reformer from its definition, pair by pair, for any scalar type: double for values,
// std::complex<double> for gradients. Hashes look at real parts.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <numeric>
#include <vector>

#include "longspan/attention/cluster/reformer.h"

namespace longspan {

template <class T>
struct ReformerReference {
  ReformerConfig config;
  LshCode code;
  AttentionShape shape;
  std::vector<double> rotations;  // [heads·d, rounds·projections]
  std::vector<T> q, k, v;         // dense [batch, heads, n, width]; k before its normalisation

  std::size_t length(std::size_t b) const {
    return shape.key_lengths.empty() ? shape.n : static_cast<std::size_t>(shape.key_lengths[b]);
  }
  std::size_t sorted(std::size_t b) const {
    return config.padding == ReformerPadding::kSkip ? length(b) : shape.n;
  }
  std::size_t chunks(std::size_t b) const { return (sorted(b) + config.chunk - 1) / config.chunk; }

  // bucket[r][i]; padded tokens may have an extra one.
  std::vector<std::vector<std::size_t>> buckets(std::size_t plane) const {
    const std::size_t b = plane / shape.heads;
    const std::size_t columns = code.rounds * code.projections();
    std::vector<std::vector<std::size_t>> result(code.rounds);
    for (std::size_t r = 0; r < code.rounds; ++r) {
      for (std::size_t i = 0; i < sorted(b); ++i) {
        std::size_t bucket = 0;
        std::size_t weight = 1;
        std::size_t column = r * code.projections();
        for (const std::size_t factor : code.factors) {
          if (factor == 0) break;
          bucket += weight * argmax(plane, i, column, factor / 2, columns);
          weight *= factor;
          column += factor / 2;
        }
        const bool padded = config.padding == ReformerPadding::kBucket && i >= length(b);
        result[r].push_back(padded ? code.buckets() : bucket);
      }
    }
    return result;
  }

  std::size_t argmax(std::size_t plane, std::size_t i, std::size_t column, std::size_t half,
                     std::size_t columns) const {
    std::size_t best = 0;
    double most = -1.0;
    bool negative = false;
    for (std::size_t c = 0; c < half; ++c) {
      double y = 0.0;
      for (std::size_t x = 0; x < shape.d; ++x) {
        const std::size_t row = plane % shape.heads * shape.d + x;
        y += std::real(q[(plane * shape.n + i) * shape.d + x]) *
             rotations[row * columns + column + c];
      }
      if (std::abs(y) > most) {
        most = std::abs(y);
        best = c;
        negative = y < 0.0;
      }
    }
    return best + (negative ? half : 0);
  }

  // The tokens of every chunk of every round, rounds one after the other.
  std::vector<std::vector<std::size_t>> cut(
      std::size_t b, const std::vector<std::vector<std::size_t>>& bucket) const {
    std::vector<std::vector<std::size_t>> result;
    for (std::size_t r = 0; r < code.rounds; ++r) {
      std::vector<std::size_t> order(sorted(b));
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t x, std::size_t y) { return bucket[r][x] < bucket[r][y]; });
      for (std::size_t first = 0; first < order.size(); first += config.chunk) {
        const std::size_t last = std::min(first + config.chunk, order.size());
        result.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(first),
                            order.begin() + static_cast<std::ptrdiff_t>(last));
      }
    }
    return result;
  }

  // The chunk that lies `offset` behind chunk c, all rounds numbered through; −1 if there is none.
  std::ptrdiff_t neighbour(std::size_t b, std::size_t c, std::ptrdiff_t offset) const {
    const auto per_round = static_cast<std::ptrdiff_t>(chunks(b));
    const auto all = per_round * static_cast<std::ptrdiff_t>(code.rounds);
    const auto at = static_cast<std::ptrdiff_t>(c);
    const std::ptrdiff_t first = at / per_round * per_round;
    auto modulo = [](std::ptrdiff_t x, std::ptrdiff_t m) { return (x % m + m) % m; };
    if (config.wrap == Wrap::kAll) return modulo(at + offset, all);
    const std::ptrdiff_t inside = at - first + offset;
    if (config.wrap == Wrap::kRound) return first + modulo(inside, per_round);
    return inside < 0 || inside >= per_round ? -1 : first + inside;
  }

  // Whether a query may see a key of its window at all.
  bool allowed(std::size_t b, std::size_t i, std::size_t j) const {
    if (i == j || j >= length(b)) return false;
    if (config.padding == ReformerPadding::kHash && i >= length(b)) return false;
    return !shape.causal || j < i;
  }

  // Σ over rounds of e^s/c by pair, and whether a token saw anybody: the rows of the matrix before
  // they are normalised, with the largest score taken off.
  std::vector<T> weights(std::size_t plane) const {
    const std::size_t b = plane / shape.heads;
    const std::size_t n = shape.n;
    std::vector<T> w(n * n, T{});
    if (sorted(b) == 0) return w;
    const auto bucket = buckets(plane);
    const auto chunk = cut(b, bucket);
    const std::vector<double> meets = meetings(b, bucket, chunk);
    const std::vector<T> s = scores(plane);
    for (std::size_t c = 0; c < chunk.size(); ++c) {
      for_each_pair(b, bucket, chunk, c, [&](std::size_t i, std::size_t j) {
        w[i * n + j] += std::exp(s[i * n + j]) / (config.deduplicate ? meets[i * n + j] : 1.0);
      });
    }
    for (std::size_t i = 0; i < sorted(b); ++i) normalise(b, i, w);
    return w;
  }

  std::vector<T> forward() const {
    std::vector<T> y(shape.batch * shape.heads * shape.n * shape.e, T{});
    for (std::size_t plane = 0; plane < shape.batch * shape.heads; ++plane) {
      const std::vector<T> w = weights(plane);
      for (std::size_t i = 0; i < shape.n; ++i) {
        for (std::size_t j = 0; j < shape.n; ++j) {
          for (std::size_t c = 0; c < shape.e; ++c) {
            y[(plane * shape.n + i) * shape.e + c] +=
                w[i * shape.n + j] * v[(plane * shape.n + j) * shape.e + c];
          }
        }
      }
    }
    return y;
  }

 private:
  void normalise(std::size_t /*b*/, std::size_t i, std::vector<T>& w) const {
    T sum{};
    for (std::size_t j = 0; j < shape.n; ++j) sum += w[i * shape.n + j];
    if (std::real(sum) == 0.0) {
      w[i * shape.n + i] = T{1.0};
      return;
    }
    for (std::size_t j = 0; j < shape.n; ++j) w[i * shape.n + j] /= sum;
  }

  std::vector<T> scores(std::size_t plane) const {
    const std::size_t n = shape.n;
    const auto d = static_cast<double>(shape.d);
    std::vector<T> s(n * n, T{});
    for (std::size_t j = 0; j < n; ++j) {
      const T* key = k.data() + (plane * n + j) * shape.d;
      T square{};
      for (std::size_t c = 0; c < shape.d; ++c) square += key[c] * key[c];
      const T inverse = config.scaling == ReformerScaling::kPaper
                            ? 1.0 / std::sqrt(square)
                            : 1.0 / std::sqrt(square / d + 1e-6);
      for (std::size_t i = 0; i < n; ++i) {
        const T* query = q.data() + (plane * n + i) * shape.d;
        for (std::size_t c = 0; c < shape.d; ++c) s[i * n + j] += query[c] * key[c];
        s[i * n + j] *= inverse / std::sqrt(d);
      }
    }
    return s;
  }

  // Calls use(i, j) for the pairs that queries of chunk c see.
  template <class Use>
  void for_each_pair(std::size_t b, const std::vector<std::vector<std::size_t>>& bucket,
                     const std::vector<std::vector<std::size_t>>& chunk, std::size_t c,
                     Use use) const {
    const bool strict = config.strict && shape.causal;
    const std::size_t r = c / chunks(b);
    for (std::ptrdiff_t offset = -static_cast<std::ptrdiff_t>(config.before);
         offset <= static_cast<std::ptrdiff_t>(config.after); ++offset) {
      const std::ptrdiff_t at = neighbour(b, c, offset);
      if (at < 0) continue;
      const std::size_t other = static_cast<std::size_t>(at) / chunks(b);
      for (const std::size_t i : chunk[c]) {
        for (const std::size_t j : chunk[static_cast<std::size_t>(at)]) {
          if (!allowed(b, i, j)) continue;
          if (config.same_bucket && (r != other || bucket[r][i] != bucket[r][j])) continue;
          if (strict && rank(bucket[r], i) - rank(bucket[r], j) > config.before * config.chunk) {
            continue;
          }
          use(i, j);
        }
      }
    }
  }

  // How many earlier tokens share the bucket.
  static std::size_t rank(const std::vector<std::size_t>& bucket, std::size_t i) {
    return static_cast<std::size_t>(
        std::count(bucket.begin(), bucket.begin() + static_cast<std::ptrdiff_t>(i), bucket[i]));
  }

  // How many rounds a pair meets in.
  std::vector<double> meetings(std::size_t b, const std::vector<std::vector<std::size_t>>& bucket,
                               const std::vector<std::vector<std::size_t>>& chunk) const {
    std::vector<double> count(shape.n * shape.n, 0.0);
    for (std::size_t c = 0; c < chunk.size(); ++c) {
      for_each_pair(b, bucket, chunk, c,
                    [&](std::size_t i, std::size_t j) { count[i * shape.n + j] += 1.0; });
    }
    return count;
  }
};

}  // namespace longspan
