// Sums over rows that lie anywhere, on the calling thread: members of a cluster, keys of a list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "longspan/base/view.h"

namespace longspan {

// to = scale·Σ_i x[rows[i]], in that order; zeros for no rows.
void sum_rows(ConstMatrix x, std::span<const std::int32_t> rows, float scale, std::span<float> to);

// y[rows[i]] = scale·row for each i, or += if `add`.
void spread_row(std::span<const float> row, float scale, bool add,
                std::span<const std::int32_t> rows, Matrix y);

// y[rows[i]] += x[i], in that order; rows may repeat.
void scatter_rows(ConstMatrix x, std::span<const std::int32_t> rows, Matrix y);

}  // namespace longspan
