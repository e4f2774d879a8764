// Sequences made shorter and longer again: neighbouring rows pooled in pairs, and rows repeated.
//
//   pooled    y_i = mean or maximum of x_{2i}, x_{2i+1}
//             with `cls` the first row stays as it is: y_0 = x_0, y_i of x_{2i−1}, x_{2i}
//   repeated  y_i = x_{i/S} (+ skip_i);  with `cls` y_0 = x_0, y_i = x_{1 + (i−1)/S}
//
// A row without a partner is pooled alone; a row with nothing to repeat is zeros (+ skip_i). Every
// function says in its last line what it reports; rows are those of all sequences.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "longspan/base/view.h"

namespace longspan {

struct Pooling {
  std::size_t batch = 1;
  std::size_t length = 0;  // rows of a sequence
  bool maximum = false;    // or the mean
  bool cls = false;
  bool truncated = false;  // with `cls`: the last row is left out

  // Rows that are pooled, and what they become.
  std::size_t used() const { return length - (cls && truncated && length > 1 ? 1 : 0); }
  std::size_t pooled() const { return cls ? 1 + used() / 2 : (length + 1) / 2; }
  // The pair of y_i: [first, last].
  std::size_t first(std::size_t i) const { return cls ? 2 * i - (i > 0 ? 1 : 0) : 2 * i; }
  std::size_t last(std::size_t i) const {
    return cls ? std::min(2 * i, used() - 1) : std::min(2 * i + 1, used() - 1);
  }
  // Pooled rows that are made of two, in one sequence.
  std::size_t pairs() const { return cls ? (used() - 1) / 2 : length / 2; }
  // Pooled rows that are made of real ones alone, where the first `rows` are real.
  std::size_t real(std::size_t rows) const {
    if (rows >= used()) return pooled();
    return cls ? (rows + 1) / 2 : rows / 2;
  }
};

// y = the pooled rows of x.                    kAdd, 2 per element of a pair (maximum: 1)
void pool_rows(const Pooling& pooling, ConstMatrix x, Matrix y);
// dx += what reaches x through y; of two equal rows the first was the maximum.
//                                              kAdd, 3 per element of a pair (maximum: 2), else 1
void pool_rows_backward(const Pooling& pooling, ConstMatrix x, ConstMatrix dy, Matrix dx);
// The ids of the first row of each pair.       nothing
void pool_ids(const Pooling& pooling, std::span<const std::int32_t> ids,
              std::span<std::int32_t> pooled);

struct Repetition {
  std::size_t batch = 1;
  std::size_t length = 0;  // rows of a repeated sequence
  std::size_t rows = 0;    // rows that it has before
  std::size_t times = 1;   // S
  bool cls = false;

  // The row that y_i repeats; `rows` or more: none.
  std::size_t source(std::size_t i) const { return cls ? (i + times - 1) / times : i / times; }
  // Rows of one sequence that repeat another.
  std::size_t repeated() const {
    return std::min(length, cls ? 1 + (rows - 1) * times : rows * times);
  }
};

// y = the repeated rows of x, + skip.          kAdd, 1 per element that repeats another
void repeat_rows(const Repetition& repetition, ConstMatrix x, ConstMatrix skip, Matrix y);
// dx = the sums of the rows of dy that repeat each row.
//                                              kAdd, 1 per element but the first of each sum
void repeat_rows_backward(const Repetition& repetition, ConstMatrix dy, Matrix dx);

}  // namespace longspan
