// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/vector_dropout.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include <hwy/highway.h>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/philox-inl.h"
#include "longspan/kernels/pieces.h"
#include "longspan/kernels/rows/vector.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

// Rows [begin, end) of y = x⊙mask/(1 − rate).
void dropout_rows(const Dropout& drop, ConstMatrix x, Matrix y, size_t begin, size_t end) {
  const hn::RebindToUnsigned<D> du;
  const PhiloxKeys keys(drop.key);
  const auto threshold = hn::Set(du, drop.threshold());
  const V factor = hn::Set(D(), drop.scale());
  HWY_ALIGN uint32_t bits[kPhiloxWords];
  for (size_t r = begin; r < end; ++r) {
    const float* xs = x.row_data(r);
    float* ys = y.row_data(r);
    for (size_t first = 0; first < x.cols; first += philox_words()) {
      philox_row(keys, static_cast<uint32_t>(r), static_cast<uint32_t>(first / 4), 0, bits);
      for_lanes(HWY_MIN(philox_words(), x.cols - first), [&](auto io, size_t i) HWY_ATTR {
        const auto dropped = hn::Lt(hn::Load(du, bits + i), threshold);
        const V value = hn::Mul(io.load(xs + first + i), factor);
        io.store(hn::IfThenZeroElse(hn::RebindMask(D(), dropped), value), ys + first + i);
      });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {
HWY_EXPORT(dropout_rows);
}  // namespace

void dropout(const Dropout& drop, ConstMatrix x, Matrix y) {
  require(x.rows == y.rows && x.cols == y.cols, "[dropout] {}x{} to {}x{}; need equal shapes",
          x.rows, x.cols, y.rows, y.cols);
  require(drop.rate >= 0.0F && drop.rate < 1.0F, "[dropout] rate is {}; need 0 <= rate < 1",
          drop.rate);
  if (!drop.active()) return copy(x, y);
  const Called called(
      [&] { return row_call(Op::kDropout, {}, x.rows, x.cols, Kind::kDropout, 1, 8); });
  if (called.dry()) return;
  detail::in_pieces(x.rows, detail::rows_per_piece(x.cols),
                    [&](std::size_t begin, std::size_t end) {
                      HWY_DYNAMIC_DISPATCH(dropout_rows)(drop, x, y, begin, end);
                    });
}

}  // namespace longspan
#endif  // HWY_ONCE
