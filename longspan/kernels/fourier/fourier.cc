// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/fourier/fourier.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "longspan/kernels/fourier/fourier.h"

#include <hwy/highway.h>

#include <algorithm>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/fourier/fourier_transform-inl.h"
#include "longspan/kernels/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

HWY_INLINE std::size_t whole_vectors(std::size_t width) { return round_up(width, kVectorLanes); }

// to[j] = a[j] + b[−j], j < d
HWY_INLINE void fold(const float* a, const float* b, std::size_t d, float* to) {
  const DF df;
  to[0] = a[0] + b[0];
  std::size_t j = 1;
  for (; j + kVectorLanes <= d; j += kVectorLanes) {
    const VF back = hn::Reverse(df, hn::LoadU(df, b + d - j - (kVectorLanes - 1)));
    hn::StoreU(hn::Add(hn::LoadU(df, a + j), back), df, to + j);
  }
  for (; j < d; ++j) to[j] = a[j] + b[d - j];
}

// end[−i] = from[i], i < count
HWY_INLINE void mirror(const float* from, std::size_t count, float* end) {
  const DF df;
  std::size_t i = 0;
  for (; i + kVectorLanes <= count; i += kVectorLanes) {
    hn::StoreU(hn::Reverse(df, hn::LoadU(df, from + i)), df, end - i - (kVectorLanes - 1));
  }
  for (; i < count; ++i) *(end - i) = from[i];
}

HWY_INLINE void put(const float* from, std::size_t count, float* to) {
  for_lanes(count, [&](auto io, size_t i) HWY_ATTR { io.store(io.load(from + i), to + i); });
}
// The same, and zeros up to `width`, whole vectors.
HWY_INLINE void put_padded(const float* from, std::size_t count, std::size_t width, float* to) {
  const std::size_t whole = count / kVectorLanes * kVectorLanes;
  put(from, whole, to);
  if (whole == width) return;
  hn::Store(PartVector{count - whole}.load(from + whole), DF(), to + whole);
  for (std::size_t i = whole + kVectorLanes; i < width; i += kVectorLanes) {
    hn::Store(hn::Zero(DF()), DF(), to + i);
  }
}

// The folded rows of a part of the block, turned so that they lie side by side. Both transforms
// give twice what they should, and so does folding: ⅛ is for all three.
HWY_INLINE void load_rows(const FourierMixing& mix, std::size_t first, std::size_t count,
                          std::size_t width, float* folded, float* to) {
  const std::size_t n = mix.x.rows;
  const std::size_t d = mix.x.cols;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t m = first + i;
    fold(mix.x.row_data(m), mix.x.row_data(m > 0 ? n - m : 0), d, folded + i * d);
  }
  std::fill(folded + count * d, folded + width * d, 0.0F);
  transpose<false>(folded, d, width, d, 0.125F, to, kFourierPitch);
}

HWY_INLINE void store_rows(const float* from, std::size_t count, std::size_t first, Matrix to) {
  transpose<false>(from, kFourierPitch, to.cols, count, 1.0F, to.row_data(first), to.stride);
}

void mix_rows(const FourierMixing& mix, std::size_t block, float* room) {
  const FourierBlock b(block, mix.t.rows);
  const std::size_t width = whole_vectors(b.reals);
  const FourierRooms rooms{room, room + fourier_room(mix.x.cols)};
  load_rows(mix, b.first, b.reals, width, rooms.other, rooms.x);
  load_rows(mix, b.first + b.reals, b.count - b.reals, width, rooms.other, rooms.x + kFourierLanes);
  const Hartley h = hartley(*mix.across, width, rooms);
  store_rows(h.plus, b.reals, b.first, mix.t);
  store_rows(h.plus + kFourierLanes, b.count - b.reals, b.first + b.reals, mix.t);
  store_rows(h.minus, b.reals, b.first, mix.mirrored);
  store_rows(h.minus + kFourierLanes, b.count - b.reals, b.first + b.reals, mix.mirrored);
}

HWY_INLINE void load_columns(const FourierBlock& b, const float* row, std::size_t width,
                             float* to) {
  put_padded(row + b.first, b.reals, width, to);
  put_padded(row + b.first + b.reals, b.count - b.reals, width, to + kFourierLanes);
}

// y[k, l] and y[−k, −l] of `count` columns from l = first on.
HWY_INLINE void store_columns(const float* from, std::size_t first, std::size_t count,
                              std::size_t d, float* row, float* opposite) {
  put(from, count, row + first);
  const std::size_t begin = std::max<std::size_t>(first, 1);
  const std::size_t end = std::min(first + count, (d + 1) / 2);
  if (begin < end) mirror(from + (begin - first), end - begin, opposite + d - begin);
}

void mix_columns(const FourierMixing& mix, std::size_t block, float* room) {
  const std::size_t n = mix.x.rows;
  const std::size_t d = mix.x.cols;
  const FourierBlock b(block, mix.t.cols);
  const std::size_t width = whole_vectors(b.reals);
  const FourierRooms rooms{room, room + fourier_room(n)};
  for (std::size_t m = 0; m < mix.t.rows; ++m) {
    load_columns(b, mix.mirrored.row_data(m), width, rooms.x + m * kFourierPitch);
    if (m == 0 || 2 * m == n) continue;
    load_columns(b, mix.t.row_data(m), width, rooms.x + (n - m) * kFourierPitch);
  }
  const Hartley h = hartley(*mix.along, width, rooms);
  const auto store = [&](const float* from, std::size_t k, std::size_t opposite) HWY_ATTR {
    float* row = mix.y.row_data(k);
    float* opposite_row = mix.y.row_data(opposite);
    store_columns(from, b.first, b.reals, d, row, opposite_row);
    store_columns(from + kFourierLanes, b.first + b.reals, b.count - b.reals, d, row, opposite_row);
  };
  for (std::size_t k = 0; k < mix.t.rows; ++k) {
    const std::size_t opposite = k > 0 ? n - k : 0;
    store(h.plus + k * kFourierPitch, k, opposite);
    if (opposite != k) store(h.minus + k * kFourierPitch, opposite, k);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {
HWY_EXPORT(mix_rows);
HWY_EXPORT(mix_columns);
}  // namespace

Work fourier_work(std::size_t batch, std::size_t n, std::size_t d) {
  if (batch == 0 || n == 0 || d == 0) return {};
  const std::uint64_t r = fourier_half(n);
  const std::uint64_t h = fourier_half(d);
  const std::uint64_t rows = 2 * r * d + (r + 1) / 2 * (fourier_flops(d) + 8 * h);
  const std::uint64_t columns = (h + 1) / 2 * (fourier_flops(n) + 8 * r);
  return batch * flops(Kind::kFourier, rows + columns, 8 * std::uint64_t{n} * d);
}

void fourier_mix(std::size_t batch, ConstMatrix x, Matrix y, Arena& arena) {
  require(x.rows == y.rows && x.cols == y.cols, "[fourier] y is {}×{}; need the {}×{} of x", y.rows,
          y.cols, x.rows, x.cols);
  require(batch > 0 && x.rows % batch == 0, "[fourier] {} rows for {} sequences; need a multiple",
          x.rows, batch);
  const std::size_t n = x.rows / batch;
  const std::size_t d = x.cols;
  const Called called([&] {
    return Call{.op = Op::kFourier, .rows = x.rows, .cols = d, .work = fourier_work(batch, n, d)};
  });
  if (n == 0 || d == 0) return;
  const Arena::Frame frame(arena);
  const std::size_t r = fourier_half(n);
  const std::size_t pitch = tile_pitch(fourier_half(d));
  const Matrix t(arena.take(batch * r * pitch).data(), batch * r, fourier_half(d), pitch);
  const Matrix mirrored(arena.take(batch * r * pitch).data(), batch * r, fourier_half(d), pitch);
  const std::size_t room = 2 * std::max(fourier_room(n), fourier_room(d));
  float* rooms = arena.take(workers() * room).data();
  if (called.dry()) return;
  const FourierPlan& across = fourier_plan(d);
  const FourierPlan& along = fourier_plan(n);
  const auto each_block = [&](std::size_t blocks, auto&& mix) {
    parallel_for(batch * blocks, [&](std::size_t task, std::size_t worker) {
      const std::size_t b = task / blocks;
      const FourierMixing mixing{&across,
                                 &along,
                                 x.slice_rows(b * n, n),
                                 t.slice_rows(b * r, r),
                                 mirrored.slice_rows(b * r, r),
                                 y.slice_rows(b * n, n)};
      mix(mixing, task % blocks, rooms + worker * room);
    });
  };
  each_block(FourierBlock::blocks(t.rows / batch), HWY_DYNAMIC_DISPATCH(mix_rows));
  each_block(FourierBlock::blocks(t.cols), HWY_DYNAMIC_DISPATCH(mix_columns));
}

}  // namespace longspan
#endif  // HWY_ONCE
