// The mixture of experts from its definition, token by token with every tensor written out, for any
// scalar type: double for values, std::complex<double> for gradients. Choices look at real parts.
//
// Dispatch is that of GShard's algorithm 1: an expert counts everybody who asks for it, first
// choices before second ones, and takes those who find the count below its capacity.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace longspan {

template <class S>
struct ExpertsReference {
  using Row = std::vector<S>;

  std::size_t experts = 1;
  std::size_t top = 1;
  double factor = 1.0;
  double alpha = 0.0;
  bool normalize = false;
  std::size_t length = 0;
  std::vector<std::int32_t> lengths;  // real tokens of each sequence; empty = all
  std::vector<Row> x;                 // a row per token
  std::vector<Row> router;            // a row per expert
  std::function<Row(std::size_t, const Row&)> feed_forward;  // of an expert

  struct Result {
    std::vector<Row> y;
    S loss{};                        // α·E·Σ f·P
    std::vector<std::size_t> loads;  // tokens that each expert computed
    std::size_t dropped = 0;         // choices
  };

  Result forward() const {
    const std::vector<Row> p = probabilities();
    const std::vector<std::vector<std::size_t>> choice = choices(p);
    Result result;
    result.y.assign(x.size(), Row(x.empty() ? 0 : x[0].size(), S{}));
    result.loads.assign(experts, 0);
    std::vector<std::size_t> asked(experts, 0);
    for (std::size_t rank = 0; rank < top; ++rank) {
      for (std::size_t t = 0; t < x.size(); ++t) {
        if (!real(t)) continue;
        const std::size_t e = choice[t][rank];
        if (static_cast<double>(asked[e]++) >= capacity()) {
          ++result.dropped;
          continue;
        }
        ++result.loads[e];
        const Row o = feed_forward(e, x[t]);
        const S g = gate(p[t], choice[t], rank);
        for (std::size_t c = 0; c < o.size(); ++c) result.y[t][c] += g * o[c];
      }
    }
    result.loss = loss(p, choice);
    return result;
  }

  double tokens() const {
    double count = 0.0;
    for (std::size_t t = 0; t < x.size(); ++t) count += real(t) ? 1.0 : 0.0;
    return count;
  }
  double capacity() const {
    return std::ceil(factor * static_cast<double>(top) * tokens() / static_cast<double>(experts) -
                     1e-9);
  }

 private:
  bool real(std::size_t t) const {
    return lengths.empty() || t % length < static_cast<std::size_t>(lengths[t / length]);
  }

  std::vector<Row> probabilities() const {
    std::vector<Row> p(x.size(), Row(experts, S{}));
    for (std::size_t t = 0; t < x.size(); ++t) {
      S sum{};
      for (std::size_t e = 0; e < experts; ++e) {
        S r{};
        for (std::size_t c = 0; c < x[t].size(); ++c) r += x[t][c] * router[e][c];
        sum += p[t][e] = std::exp(r);
      }
      for (S& value : p[t]) value /= sum;
    }
    return p;
  }

  // Of each token, the experts by falling probability: one is at the rank that is the number of
  // experts before it.
  std::vector<std::vector<std::size_t>> choices(const std::vector<Row>& p) const {
    std::vector<std::vector<std::size_t>> choice(p.size(), std::vector<std::size_t>(experts));
    for (std::size_t t = 0; t < p.size(); ++t) {
      for (std::size_t e = 0; e < experts; ++e) {
        std::size_t rank = 0;
        for (std::size_t i = 0; i < experts; ++i) {
          const double a = std::real(p[t][i]);
          const double b = std::real(p[t][e]);
          if (a > b || (a == b && i < e)) ++rank;
        }
        choice[t][rank] = e;
      }
    }
    return choice;
  }

  S gate(const Row& p, const std::vector<std::size_t>& choice, std::size_t rank) const {
    if (!normalize || top == 1) return p[choice[rank]];
    S sum{};
    for (std::size_t j = 0; j < top; ++j) sum += p[choice[j]];
    return p[choice[rank]] / sum;
  }

  S loss(const std::vector<Row>& p, const std::vector<std::vector<std::size_t>>& choice) const {
    S sum{};
    for (std::size_t e = 0; e < experts; ++e) {
      double fraction = 0.0;
      S mean{};
      for (std::size_t t = 0; t < p.size(); ++t) {
        if (!real(t)) continue;
        fraction += choice[t][0] == e ? 1.0 / tokens() : 0.0;
        mean += p[t][e] / tokens();
      }
      sum += fraction * mean;
    }
    return alpha * static_cast<double>(experts) * sum;
  }
};

}  // namespace longspan
