// A matrix whose rows are followed by NaNs, which a kernel may neither use nor overwrite.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "longspan/base/random.h"
#include "longspan/base/view.h"

namespace longspan::testing {

class GuardedMatrix {
 public:
  // `guard` NaNs behind every row, so the stride is cols + guard.
  GuardedMatrix(std::size_t rows, std::size_t cols, std::size_t guard = 3)
      : data_(rows * (cols + guard) + guard, std::numeric_limits<float>::quiet_NaN()),
        rows_(rows),
        cols_(cols),
        guard_(guard) {
    for (std::size_t i = 0; i < rows_; ++i) std::ranges::fill(view().row(i), 0.0F);
  }
  // Uniform in [−range, range).
  static GuardedMatrix random(std::size_t rows, std::size_t cols, RandomKey key,
                              float range = 1.0F) {
    GuardedMatrix m(rows, cols);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < cols; ++j) {
        m.view().row(i)[j] = range * (2.0F * random_uniform(key, i * cols + j) - 1.0F);
      }
    }
    return m;
  }

  Matrix view() { return {data_.data(), rows_, cols_, cols_ + guard_}; }
  ConstMatrix view() const { return {data_.data(), rows_, cols_, cols_ + guard_}; }
  float at(std::size_t i, std::size_t j) const { return view().row_data(i)[j]; }
  float& at(std::size_t i, std::size_t j) { return view().row_data(i)[j]; }

  // No guard was overwritten.
  bool intact() const {
    for (std::size_t i = 0; i < rows_; ++i) {
      for (std::size_t g = 0; g < guard_; ++g) {
        if (!std::isnan(view().row_data(i)[cols_ + g])) return false;
      }
    }
    return true;
  }
  // Every element and every guard has the same bits.
  bool operator==(const GuardedMatrix& o) const {
    return std::ranges::equal(data_, o.data_, [](float a, float b) {
      return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    });
  }

 private:
  std::vector<float> data_;
  std::size_t rows_;
  std::size_t cols_;
  std::size_t guard_;
};

}  // namespace longspan::testing
