// Asking for rows before they are needed: rows in the order of a sort defeat the prefetcher.

#if defined(LONGSPAN_KERNELS_GATHER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_GATHER_INL_H_
#undef LONGSPAN_KERNELS_GATHER_INL_H_
#else
#define LONGSPAN_KERNELS_GATHER_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "longspan/base/view.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {

inline constexpr std::size_t kRowsAhead = 8;

// Row rows[i] of x, if there is an i.
HWY_INLINE void prefetch_row(ConstMatrix x, std::span<const std::int32_t> rows, std::size_t i) {
  constexpr std::size_t kLine = 16;
  if (i >= rows.size()) return;
  const float* row = x.row_data(static_cast<std::size_t>(rows[i]));
  for (std::size_t c = 0; c < x.cols; c += kLine) hwy::Prefetch(row + c);
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LONGSPAN_KERNELS_GATHER_INL_H_
