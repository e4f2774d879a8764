// One row of every sequence: the last real one, or that of the largest id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "longspan/base/view.h"
#include "longspan/kernels/rows/sequence.h"

namespace longspan {

// Of no real rows, the first.
struct ChosenRows {
  Sequences sequences;
  std::span<const std::int32_t> ids;  // of every row; the first of the largest; empty: the last row

  // Among all rows, of sequence b.
  std::size_t row(std::size_t b) const;
};

// y[b] = x[row(b)].                                               nothing
void take_rows(const ChosenRows& chosen, ConstMatrix x, Matrix y);
// x is y[b] at row(b), and 0 elsewhere.                           nothing
void put_rows(const ChosenRows& chosen, ConstMatrix y, Matrix x);

}  // namespace longspan
