// What a student learns from a teacher, from its definition and for any scalar type of the student's
// numbers: double for values, std::complex<double> for gradients.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <span>
#include <vector>

namespace longspan {

// softmax(x/T)
template <class S, class X>
std::vector<S> softened(std::span<const X> x, double temperature) {
  std::vector<S> p;
  S sum{0.0};
  for (const X& value : x) {
    p.push_back(std::exp(S(value) / temperature));
    sum += p.back();
  }
  for (S& value : p) value /= sum;
  return p;
}

// (1 − w)·(−log softmax(s)[y]) + w·T²·KL(softmax(t/T) ‖ softmax(s/T)) of one row.
template <class S>
S distillation_reference(std::span<const S> s, std::span<const float> t, std::size_t target,
                         double temperature, double weight) {
  const std::vector<double> p = softened<double>(t, temperature);
  const std::vector<S> q = softened<S>(s, temperature);
  S divergence{0.0};
  for (std::size_t j = 0; j < p.size(); ++j) divergence += p[j] * (std::log(p[j]) - std::log(q[j]));
  return -(1.0 - weight) * std::log(softened<S>(s, 1.0)[target]) +
         weight * temperature * temperature * divergence;
}

// 1 − cos(h, g)
template <class S>
S cosine_distance_reference(std::span<const S> h, std::span<const float> g) {
  S hh{0.0};
  S hg{0.0};
  double gg = 0.0;
  for (std::size_t j = 0; j < h.size(); ++j) {
    const double teacher = g[j];
    hh += h[j] * h[j];
    hg += h[j] * teacher;
    gg += teacher * teacher;
  }
  return 1.0 - hg / std::sqrt(hh * gg);
}

}  // namespace longspan
