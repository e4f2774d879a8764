// The mixture of experts from its definition, token by token with every tensor written out, for any
// scalar type: double for values, std::complex<double> for gradients. Choices look at real parts.
//
// Dispatch is that of GShard's algorithm 1: an expert counts everybody who asks for it, first
// choices before second ones, and takes those who find the count below its capacity. With places
// each sequence is counted by itself.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "longspan/layers/experts.h"

namespace longspan {

// What losses are made of, of one layer or of several.
template <class S>
struct ExpertsLossReference {
  std::vector<double> rows;  // of each group
  std::vector<std::vector<double>> choices;
  std::vector<std::vector<S>> scores;
  S squares{};

  S value(const ExpertsConfig& c) const {
    S sum{};
    double all = 0.0;
    for (std::size_t g = 0; g < rows.size(); ++g) {
      all += rows[g];
      for (std::size_t e = 0; e < c.experts && rows[g] > 0.0; ++e) {
        sum += choices[g][e] / rows[g] * scores[g][e] / rows[g];
      }
    }
    if (all == 0.0) return S{};
    return c.balance * static_cast<double>(c.experts) / static_cast<double>(rows.size()) * sum +
           c.squares / all * squares;
  }
};

template <class S>
struct ExpertsReference {
  using Row = std::vector<S>;
  using Loss = ExpertsLossReference<S>;

  ExpertsConfig config;
  std::size_t length = 0;
  std::vector<std::int32_t> lengths;  // real tokens of each sequence; empty = all
  std::vector<Row> x;                 // a row per token
  std::vector<Row> router;            // a row per expert
  Row bias;                           // of the router; empty: none
  std::vector<double> correction;     // empty: none
  std::function<Row(std::size_t, const Row&)> feed_forward;  // of an expert
  std::function<Row(const Row&)> shared;                     // of the shared ones; empty: none
  Row gate;                                                  // their gate's weights; empty: none

  struct Result {
    std::vector<Row> y;
    std::vector<std::size_t> loads;  // tokens that each expert computed
    std::size_t dropped = 0;         // choices
  };

  // Adds to what losses are made of.
  Result forward(Loss& loss) const {
    const std::vector<Row> logits = outputs();
    const std::vector<Row> s = scores(logits);
    std::vector<std::vector<std::size_t>> choice;
    for (std::size_t t = 0; t < x.size(); ++t) choice.push_back(choices(s[t]));
    Result result;
    result.y.assign(x.size(), Row(x.empty() ? 0 : x[0].size(), S{}));
    result.loads.assign(config.experts, 0);
    std::vector<std::vector<bool>> took(x.size(), std::vector<bool>(config.top, false));
    const std::size_t run = config.places > 0 ? length : std::max<std::size_t>(1, x.size());
    for (std::size_t first = 0; first < x.size(); first += run) {
      std::vector<std::size_t> asked(config.experts, 0);
      for (std::size_t rank = 0; rank < config.top; ++rank) {
        for (std::size_t t = first; t < first + run; ++t) {
          if (!routed(t)) continue;
          const std::size_t e = choice[t][rank];
          took[t][rank] = static_cast<double>(asked[e]++) < capacity();
          if (took[t][rank]) ++result.loads[e];
          if (!took[t][rank]) ++result.dropped;
          const bool passes = config.overflow == Overflow::kPass;
          if (!took[t][rank] && !passes) continue;
          const Row o = took[t][rank] ? feed_forward(e, x[t]) : x[t];
          const S g = weight(s[t], choice[t], rank);
          for (std::size_t c = 0; c < o.size(); ++c) result.y[t][c] += g * o[c];
        }
      }
    }
    if (shared) add_shared(result.y);
    add_loss(logits, s, choice, took, loss);
    return result;
  }

  double tokens() const {
    double count = 0.0;
    for (std::size_t t = 0; t < x.size(); ++t) count += routed(t) ? 1.0 : 0.0;
    return count;
  }
  double capacity() const {
    if (config.places > 0) return static_cast<double>(config.places);
    if (config.capacity == 0.0) return tokens();
    return std::ceil(config.capacity * static_cast<double>(config.top) * tokens() /
                         static_cast<double>(config.experts) -
                     1e-9);
  }

 private:
  bool real(std::size_t t) const {
    return lengths.empty() || t % length < static_cast<std::size_t>(lengths[t / length]);
  }
  bool routed(std::size_t t) const { return config.padding || real(t); }

  static S sigmoid(const S& v) { return 1.0 / (1.0 + std::exp(-v)); }
  static S product(const Row& a, const Row& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), S{});
  }

  std::vector<Row> outputs() const {
    std::vector<Row> r(x.size(), Row(config.experts, S{}));
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t e = 0; e < config.experts; ++e) {
        r[t][e] = product(x[t], router[e]) + (bias.empty() ? S{} : bias[e]);
      }
    }
    return r;
  }

  std::vector<Row> scores(const std::vector<Row>& logits) const {
    std::vector<Row> s = logits;
    for (Row& row : s) {
      S sum{};
      for (S& v : row) {
        if (config.score == RouteScore::kSigmoid) {
          v = sigmoid(v);
        } else {
          sum += v = std::exp(v);
        }
      }
      for (S& v : row) v /= config.score == RouteScore::kSigmoid ? S{1.0} : sum;
    }
    return s;
  }

  // The indices of the values by falling size, equal ones in order.
  static std::vector<std::size_t> ranked(const std::vector<double>& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](auto a, auto b) { return values[a] > values[b]; });
    return order;
  }

  std::vector<std::size_t> choices(const Row& s) const {
    std::vector<double> v;
    for (std::size_t e = 0; e < config.experts; ++e) {
      v.push_back(std::real(s[e]) + (correction.empty() ? 0.0 : correction[e]));
    }
    if (config.groups > 1) {
      const std::size_t each = config.experts / config.groups;
      std::vector<double> own;
      for (std::size_t g = 0; g < config.groups; ++g) {
        std::vector<double> members(v.begin() + static_cast<std::ptrdiff_t>(g * each),
                                    v.begin() + static_cast<std::ptrdiff_t>((g + 1) * each));
        std::ranges::sort(members, std::greater<>());
        own.push_back(config.group_score == GroupScore::kBest ? members[0]
                                                              : members[0] + members[1]);
      }
      const std::vector<std::size_t> order = ranked(own);
      for (std::size_t i = config.top_groups; i < order.size(); ++i) {
        for (std::size_t e = 0; e < each; ++e) v[order[i] * each + e] = 0.0;
      }
    }
    return ranked(v);
  }

  S weight(const Row& s, const std::vector<std::size_t>& choice, std::size_t rank) const {
    const S own = config.scaling * s[choice[rank]];
    if (!config.divides()) return own;
    if (config.top == 1) return S{config.scaling};  // its share of itself
    S sum{config.score == RouteScore::kSigmoid ? 1e-20 : 0.0};
    for (std::size_t j = 0; j < config.top; ++j) sum += s[choice[j]];
    return own / sum;
  }

  void add_shared(std::vector<Row>& y) const {
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Row o = shared(x[t]);
      const S g = gate.empty() ? S{1.0} : sigmoid(product(x[t], gate));
      for (std::size_t c = 0; c < o.size(); ++c) y[t][c] += g * o[c];
    }
  }

  void add_loss(const std::vector<Row>& logits, const std::vector<Row>& s,
                const std::vector<std::vector<std::size_t>>& choice,
                const std::vector<std::vector<bool>>& took, Loss& loss) const {
    const bool sequences = config.balance_of == BalanceOf::kSequences;
    const std::size_t groups = sequences ? x.size() / length : 1;
    loss.rows.resize(groups, 0.0);
    loss.choices.resize(groups, std::vector<double>(config.experts, 0.0));
    loss.scores.resize(groups, Row(config.experts, S{}));
    for (std::size_t t = 0; t < x.size(); ++t) {
      if (!(sequences ? routed(t) : real(t))) continue;
      const std::size_t g = sequences ? t / length : 0;
      loss.rows[g] += 1.0;
      S sum{};
      for (std::size_t e = 0; e < config.experts; ++e) {
        loss.scores[g][e] += s[t][e];
        sum += std::exp(logits[t][e]);
      }
      loss.squares += std::log(sum) * std::log(sum);
      const std::size_t heard = config.balance_of == BalanceOf::kLayer ? 1 : config.top;
      for (std::size_t j = 0; j < heard; ++j) {
        const bool apart = sequences && !took[t][j];
        loss.choices[g][apart ? 0 : choice[t][j]] += 1.0;
      }
    }
  }
};

}  // namespace longspan
