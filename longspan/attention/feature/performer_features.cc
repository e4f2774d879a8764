#include "longspan/attention/feature/performer_features.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "longspan/base/config.h"
#include "longspan/kernels/feature/feature_map.h"

namespace longspan {

namespace {

using Square = std::vector<double>;  // d×d, row after row

// The norm of d Gaussians.
double chi(std::size_t d, RandomKey key, std::size_t row) {
  double sum = 0.0;
  for (std::size_t c = 0; c < d; ++c) {
    const double x = random_normal(derive(key, "norms"), row * d + c);
    sum += x * x;
  }
  return std::sqrt(sum);
}

Square gaussian(std::size_t d, RandomKey key) {
  Square a(d * d);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = random_normal(key, i);
  return a;
}

// Gram–Schmidt, twice, because once loses orthogonality to rounding.
void orthogonalise(std::size_t d, Square& a) {
  for (std::size_t i = 0; i < d; ++i) {
    double* row = a.data() + i * d;
    for (int time = 0; time < 2; ++time) {
      for (std::size_t j = 0; j < i; ++j) {
        const double* other = a.data() + j * d;
        const double dot = std::inner_product(row, row + d, other, 0.0);
        for (std::size_t c = 0; c < d; ++c) row[c] -= dot * other[c];
      }
      const double norm = std::sqrt(std::inner_product(row, row + d, row, 0.0));
      for (std::size_t c = 0; c < d; ++c) row[c] /= norm;
    }
  }
}

// Rounds of rotations in the planes of random pairs of rows, 2·⌈log₂ d⌉ of d/2 each.
Square rotations(std::size_t d, RandomKey key) {
  Square a(d * d, 0.0);
  for (std::size_t i = 0; i < d; ++i) a[i * d + i] = 1.0;
  std::vector<std::size_t> order(d);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::uint64_t drawn = 0;
  const auto rounds = 2 * static_cast<std::size_t>(std::bit_width(std::bit_ceil(d)) - 1);
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = d; i-- > 1;) {
      std::swap(order[i], order[random_below(key, drawn++, i + 1)]);
    }
    for (std::size_t i = 0; i + 1 < d; i += 2) {
      const double angle = 2.0 * std::numbers::pi * random_uniform(derive(key, "angles"), drawn++);
      const double cosine = std::cos(angle);
      const double sine = std::sin(angle);
      double* x = a.data() + order[i] * d;
      double* y = a.data() + order[i + 1] * d;
      for (std::size_t c = 0; c < d; ++c) {
        const double old = x[c];
        x[c] = cosine * old - sine * y[c];
        y[c] = sine * old + cosine * y[c];
      }
    }
  }
  return a;
}

}  // namespace

void draw_features(Orthogonal kind, FeatureNorms norms, RandomKey key, Matrix omega) {
  const std::size_t d = omega.cols;
  for (std::size_t first = 0; first < omega.rows; first += d) {
    const RandomKey block = derive(key, first / d);
    Square a = kind == Orthogonal::kGivens ? rotations(d, block) : gaussian(d, block);
    if (kind == Orthogonal::kQr) orthogonalise(d, a);
    for (std::size_t i = 0; i < d && first + i < omega.rows; ++i) {
      const double norm = kind == Orthogonal::kNone       ? 1.0
                          : norms == FeatureNorms::kFixed ? std::sqrt(static_cast<double>(d))
                                                          : chi(d, key, first + i);
      for (std::size_t c = 0; c < d; ++c) {
        omega.row_data(first + i)[c] = static_cast<float>(norm * a[i * d + c]);
      }
    }
  }
}

void draw_signs(RandomKey key, Matrix signs) {
  for (std::size_t i = 0; i < signs.size(); ++i) {
    signs.data[i] = random_bits(key, i) % 2 == 0 ? 1.0F : -1.0F;
  }
}

void draw_norms(FeatureNorms norms, std::size_t d, RandomKey key, std::span<float> lengths) {
  // H³ is p^(3/2) times an orthogonal matrix, whose rows over d of p coordinates are √(d/p) long.
  const auto p = static_cast<double>(FeatureProjection::padded(d));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double scale =
        norms == FeatureNorms::kFixed ? 1.0 : chi(d, key, i) / std::sqrt(static_cast<double>(d));
    lengths[i] = static_cast<float>(scale / p);
  }
}

}  // namespace longspan
