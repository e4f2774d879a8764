// Rows of a table by index.

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/vector_rows.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/gemm/packed_weights.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/pieces.h"
#include "longspan/kernels/rows/vector.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

void scatter_add(ConstMatrix x, const int32_t* ids, Matrix table) {
  for (size_t i = 0; i < x.rows; ++i) {
    const float* from = x.row_data(i);
    float* to = table.row_data(static_cast<size_t>(ids[i]));
    for_lanes(x.cols, [&](auto io, size_t j) HWY_ATTR {
      io.store(hn::Add(io.load(to + j), io.load(from + j)), to + j);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {

HWY_EXPORT(scatter_add);

[[maybe_unused]] bool all_inside(std::span<const std::int32_t> ids, std::size_t rows) {
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= rows) return false;
  }
  return true;
}

void require_fit(const char* who, ConstMatrix table, std::size_t ids, ConstMatrix x) {
  require(table.cols == x.cols && ids == x.rows,
          "[{}] {} ids and {}x{} values for a table {} wide; need a row of its width per id", who,
          ids, x.rows, x.cols, table.cols);
}

}  // namespace

void copy_rows(ConstMatrix x, std::size_t begin, std::size_t end, float* to) {
  constexpr std::size_t kLine = 16;
  constexpr std::size_t kAhead = 16;  // rows far apart defeat the prefetcher of the CPU
  for (std::size_t i = begin; i < end; ++i, to += x.cols) {
    const float* next = x.row_data(std::min(i + kAhead, x.rows - 1));
    for (std::size_t c = 0; c < x.cols; c += kLine) hwy::Prefetch(next + c);
    std::memcpy(to, x.row_data(i), x.cols * sizeof(float));
  }
}

void gather_rows(const WeightMatrix& table, std::span<const std::int32_t> ids, Matrix y) {
  require_fit("gather", table.matrix, ids.size(), y);
  const Called called([&] {
    Call call = row_call(Op::kGather, {}, y.rows, y.cols, Kind::kGather, 0, 8);
    call.work.bytes_of(Kind::kGather) += 4 * ids.size();
    return call;
  });
  if (called.dry()) return;
  assert(all_inside(ids, table.matrix.rows));
  detail::in_pieces(
      y.rows, detail::rows_per_piece(y.cols), [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          const auto id = static_cast<std::size_t>(ids[i]);
          if (table.packed) {
            detail::copy_packed_row(table.matrix, id, y.row_data(i));
          } else {
            std::memcpy(y.row_data(i), table.matrix.row_data(id), y.cols * sizeof(float));
          }
        }
      });
}

void scatter_add_rows(ConstMatrix x, std::span<const std::int32_t> ids, Matrix table) {
  require_fit("scatter", table, ids.size(), x);
  const Called called([&] {
    Call call = row_call(Op::kScatter, {}, x.rows, x.cols, Kind::kGather, 1, 12);
    call.work.bytes_of(Kind::kGather) += 4 * ids.size();
    return call;
  });
  if (called.dry()) return;
  assert(all_inside(ids, table.rows));
  // By columns: two rows may go to the same place, two columns never do.
  detail::in_column_blocks(x.rows, x.cols, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(scatter_add)
    (x.slice_cols(begin, end - begin), ids.data(), table.slice_cols(begin, end - begin));
  });
}

}  // namespace longspan
#endif  // HWY_ONCE
