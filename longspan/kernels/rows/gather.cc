#include "longspan/kernels/rows/gather.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/gather.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/rows/gather-inl.h"
#include "longspan/kernels/loops-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {

void SumRows(ConstMatrix x, std::span<const std::int32_t> rows, float scale, std::span<float> to) {
  for_lanes(to.size(),
            [&](auto io, std::size_t c) HWY_ATTR { io.store(hn::Zero(D()), to.data() + c); });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    prefetch_row(x, rows, i + kRowsAhead);
    const float* row = x.row_data(static_cast<std::size_t>(rows[i]));
    for_lanes(to.size(), [&](auto io, std::size_t c) HWY_ATTR {
      io.store(hn::Add(io.load(to.data() + c), io.load(row + c)), to.data() + c);
    });
  }
  for_lanes(to.size(), [&](auto io, std::size_t c) HWY_ATTR {
    io.store(hn::Mul(io.load(to.data() + c), hn::Set(D(), scale)), to.data() + c);
  });
}

void SpreadRow(std::span<const float> row, float scale, bool add,
               std::span<const std::int32_t> rows, Matrix y) {
  const V factor = hn::Set(D(), scale);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    prefetch_row(y, rows, i + kRowsAhead);
    float* to = y.row_data(static_cast<std::size_t>(rows[i]));
    for_lanes(row.size(), [&](auto io, std::size_t c) HWY_ATTR {
      const V more = hn::Mul(io.load(row.data() + c), factor);
      io.store(add ? hn::Add(io.load(to + c), more) : more, to + c);
    });
  }
}

void ScatterRows(ConstMatrix x, std::span<const std::int32_t> rows, Matrix y) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    prefetch_row(y, rows, i + kRowsAhead);
    float* to = y.row_data(static_cast<std::size_t>(rows[i]));
    const float* from = x.row_data(i);
    for_lanes(x.cols, [&](auto io, std::size_t c) HWY_ATTR {
      io.store(hn::Add(io.load(to + c), io.load(from + c)), to + c);
    });
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(SumRows);
HWY_EXPORT(SpreadRow);
HWY_EXPORT(ScatterRows);

void sum_rows(ConstMatrix x, std::span<const std::int32_t> rows, float scale, std::span<float> to) {
  HWY_DYNAMIC_DISPATCH(SumRows)(x, rows, scale, to);
}

void spread_row(std::span<const float> row, float scale, bool add,
                std::span<const std::int32_t> rows, Matrix y) {
  HWY_DYNAMIC_DISPATCH(SpreadRow)(row, scale, add, rows, y);
}

void scatter_rows(ConstMatrix x, std::span<const std::int32_t> rows, Matrix y) {
  HWY_DYNAMIC_DISPATCH(ScatterRows)(x, rows, y);
}

}  // namespace longspan
#endif  // HWY_ONCE
