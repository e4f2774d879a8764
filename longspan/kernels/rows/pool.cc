#include "longspan/kernels/rows/pool.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/pool.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include <algorithm>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/pieces.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

HWY_INLINE void pair_mean(const float* a, const float* b, float* y, size_t n) {
  const V half = hn::Set(D(), 0.5F);
  for_lanes(n, [&](auto io, size_t i) HWY_ATTR {
    io.store(hn::Mul(half, hn::Add(io.load(a + i), io.load(b + i))), y + i);
  });
}

// The larger one, or NaN if one is: the CPU's maximum would be its second operand then.
HWY_INLINE void pair_maximum(const float* a, const float* b, float* y, size_t n) {
  for_lanes(n, [&](auto io, size_t i) HWY_ATTR {
    const V first = io.load(a + i);
    const V second = io.load(b + i);
    const auto takes_first = hn::Or(hn::IsNaN(first), hn::Gt(first, second));
    io.store(hn::IfThenElse(takes_first, first, second), y + i);
  });
}

HWY_INLINE void add_scaled(const float* x, float factor, float* y, size_t n) {
  const V f = hn::Set(D(), factor);
  for_lanes(n, [&](auto io, size_t i)
                   HWY_ATTR { io.store(hn::MulAdd(f, io.load(x + i), io.load(y + i)), y + i); });
}

HWY_INLINE void add_to_larger(const float* a, const float* b, const float* dy, float* da, float* db,
                              size_t n) {
  for_lanes(n, [&](auto io, size_t i) HWY_ATTR {
    const auto second = hn::Gt(io.load(b + i), io.load(a + i));
    const V g = io.load(dy + i);
    io.store(hn::Add(io.load(da + i), hn::IfThenZeroElse(second, g)), da + i);
    io.store(hn::Add(io.load(db + i), hn::IfThenElseZero(second, g)), db + i);
  });
}

HWY_INLINE void sum_of(const float* a, const float* b, float* y, size_t n) {
  for_lanes(n, [&](auto io, size_t i)
                   HWY_ATTR { io.store(hn::Add(io.load(a + i), io.load(b + i)), y + i); });
}

void Pool(const Pooling& p, ConstMatrix x, Matrix y, size_t begin, size_t end) {
  for (size_t row = begin; row < end; ++row) {
    const size_t before = row / p.pooled() * p.length;
    const size_t i = row % p.pooled();
    const float* a = x.row_data(before + p.first(i));
    const float* b = x.row_data(before + p.last(i));
    if (a == b) {
      std::copy_n(a, x.cols, y.row_data(row));
    } else if (p.maximum) {
      pair_maximum(a, b, y.row_data(row), x.cols);
    } else {
      pair_mean(a, b, y.row_data(row), x.cols);
    }
  }
}

void PoolBackward(const Pooling& p, ConstMatrix x, ConstMatrix dy, Matrix dx, size_t begin,
                  size_t end) {
  for (size_t row = begin; row < end; ++row) {
    const size_t first = row / p.pooled() * p.length + p.first(row % p.pooled());
    const size_t last = row / p.pooled() * p.length + p.last(row % p.pooled());
    const float* g = dy.row_data(row);
    if (first == last) {
      sum_of(g, dx.row_data(first), dx.row_data(first), dx.cols);
    } else if (p.maximum) {
      add_to_larger(x.row_data(first), x.row_data(last), g, dx.row_data(first), dx.row_data(last),
                    dx.cols);
    } else {
      add_scaled(g, 0.5F, dx.row_data(first), dx.cols);
      add_scaled(g, 0.5F, dx.row_data(last), dx.cols);
    }
  }
}

void Repeat(const Repetition& r, ConstMatrix x, ConstMatrix skip, Matrix y, size_t begin,
            size_t end) {
  for (size_t row = begin; row < end; ++row) {
    const size_t source = r.source(row % r.length);
    if (source >= r.rows) {
      std::copy_n(skip.row_data(row), y.cols, y.row_data(row));
    } else {
      sum_of(x.row_data(row / r.length * r.rows + source), skip.row_data(row), y.row_data(row),
             y.cols);
    }
  }
}

void RepeatBackward(const Repetition& r, ConstMatrix dy, Matrix dx, size_t begin, size_t end) {
  for (size_t row = begin; row < end; ++row) {
    const size_t i = row % r.rows;
    // The rows that repeat it.
    const size_t from = r.cls && i > 0 ? 1 + (i - 1) * r.times : i * r.times;
    const size_t to = r.cls && i == 0 ? 1 : from + r.times;
    float* sum = dx.row_data(row);
    if (from >= r.length) {
      std::fill_n(sum, dx.cols, 0.0F);
      continue;
    }
    std::copy_n(dy.row_data(row / r.rows * r.length + from), dx.cols, sum);
    for (size_t k = from + 1; k < std::min(to, r.length); ++k) {
      sum_of(dy.row_data(row / r.rows * r.length + k), sum, sum, dx.cols);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {

HWY_EXPORT(Pool);
HWY_EXPORT(PoolBackward);
HWY_EXPORT(Repeat);
HWY_EXPORT(RepeatBackward);

void require_shapes(const char* who, std::size_t rows, ConstMatrix x, std::size_t made,
                    ConstMatrix y) {
  require(x.rows == rows && y.rows == made && x.cols == y.cols,
          "[{}] {}×{} and {}×{}; need {} rows and {} of one width", who, x.rows, x.cols, y.rows,
          y.cols, rows, made);
}

// `each` FLOPs for every element of a pair, `alone` for the others.
Call pool_call(const Pooling& p, std::size_t cols, std::uint64_t each, std::uint64_t alone) {
  const std::uint64_t pairs = p.batch * p.pairs();
  const std::uint64_t rows = p.batch * p.pooled();
  return {.op = Op::kAdd,
          .rows = rows,
          .cols = cols,
          .work = flops(Kind::kAdd, (each * pairs + alone * (rows - pairs)) * cols,
                        4 * (rows + p.batch * p.length) * cols)};
}

Call repeat_call(const Repetition& r, std::size_t cols, std::uint64_t sums) {
  return {.op = Op::kAdd,
          .rows = r.batch * r.length,
          .cols = cols,
          .work = flops(Kind::kAdd, sums * cols, 12 * std::uint64_t{r.batch} * r.length * cols)};
}

}  // namespace

void pool_rows(const Pooling& p, ConstMatrix x, Matrix y) {
  require_shapes("pool_rows", p.batch * p.length, x, p.batch * p.pooled(), y);
  const Called called([&] { return pool_call(p, x.cols, p.maximum ? 1 : 2, 0); });
  if (called.dry()) return;
  detail::in_pieces(y.rows, detail::rows_per_piece(y.cols),
                    [&](std::size_t begin, std::size_t end) {
                      HWY_DYNAMIC_DISPATCH(Pool)(p, x, y, begin, end);
                    });
}

void pool_rows_backward(const Pooling& p, ConstMatrix x, ConstMatrix dy, Matrix dx) {
  require_shapes("pool_rows_backward", p.batch * p.length, dx, p.batch * p.pooled(), dy);
  const Called called([&] { return pool_call(p, dx.cols, p.maximum ? 2 : 3, 1); });
  if (called.dry()) return;
  // No two pairs share a row.
  detail::in_pieces(dy.rows, detail::rows_per_piece(dy.cols),
                    [&](std::size_t begin, std::size_t end) {
                      HWY_DYNAMIC_DISPATCH(PoolBackward)(p, x, dy, dx, begin, end);
                    });
}

void pool_ids(const Pooling& p, std::span<const std::int32_t> ids, std::span<std::int32_t> pooled) {
  require(ids.size() == p.batch * p.length && pooled.size() == p.batch * p.pooled(),
          "[pool_ids] {} and {} ids; need {} and {}", ids.size(), pooled.size(), p.batch * p.length,
          p.batch * p.pooled());
  const Called called([&] { return move_call(pooled.size(), 1); });
  if (called.dry()) return;
  for (std::size_t row = 0; row < pooled.size(); ++row) {
    pooled[row] = ids[row / p.pooled() * p.length + p.first(row % p.pooled())];
  }
}

void repeat_rows(const Repetition& r, ConstMatrix x, ConstMatrix skip, Matrix y) {
  require_shapes("repeat_rows", r.batch * r.rows, x, r.batch * r.length, y);
  require_shapes("repeat_rows", r.batch * r.length, skip, r.batch * r.length, y);
  const Called called([&] { return repeat_call(r, y.cols, r.batch * r.repeated()); });
  if (called.dry()) return;
  detail::in_pieces(y.rows, detail::rows_per_piece(y.cols),
                    [&](std::size_t begin, std::size_t end) {
                      HWY_DYNAMIC_DISPATCH(Repeat)(r, x, skip, y, begin, end);
                    });
}

void repeat_rows_backward(const Repetition& r, ConstMatrix dy, Matrix dx) {
  require_shapes("repeat_rows_backward", r.batch * r.rows, dx, r.batch * r.length, dy);
  const Called called([&] {
    // A row of x that nothing repeats has no sum.
    const std::size_t sums = std::min(r.rows, r.source(r.length - 1) + 1);
    return repeat_call(r, dx.cols, r.batch * (r.repeated() - sums));
  });
  if (called.dry()) return;
  detail::in_pieces(dx.rows, detail::rows_per_piece(dx.cols),
                    [&](std::size_t begin, std::size_t end) {
                      HWY_DYNAMIC_DISPATCH(RepeatBackward)(r, dy, dx, begin, end);
                    });
}

}  // namespace longspan
#endif  // HWY_ONCE
