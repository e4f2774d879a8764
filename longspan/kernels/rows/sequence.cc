// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/sequence.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "longspan/kernels/rows/sequence.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "longspan/base/batch.h"
#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/pieces.h"
#include "longspan/kernels/rows/softmax.h"
#include "longspan/kernels/rows/vector.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

void add_to(const float* x, float* y, size_t n) {
  for_lanes(n, [&](auto io, size_t i)
                   HWY_ATTR { io.store(hn::Add(io.load(y + i), io.load(x + i)), y + i); });
}

void add_from_table(ConstMatrix table, const RowMap& map, Matrix x, size_t begin, size_t end) {
  for (size_t r = begin; r < end; ++r) add_to(table.row_data(map.row(r)), x.row_data(r), x.cols);
}

void add_into_table(ConstMatrix x, const RowMap& map, Matrix table) {
  for (size_t r = 0; r < x.rows; ++r) add_to(x.row_data(r), table.row_data(map.row(r)), x.cols);
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {

HWY_EXPORT(add_to);
HWY_EXPORT(add_from_table);
HWY_EXPORT(add_into_table);

void require_width(const char* who, ConstMatrix table, ConstMatrix x) {
  require(table.cols == x.cols, "[{}] rows are {} wide and the table's {}; need equal widths", who,
          x.cols, table.cols);
}

// A sequence without real rows counts as one row, so that its mean is defined.
std::size_t averaged(const Sequences& s, std::size_t b) {
  return std::max<std::size_t>(1, s.real(b));
}

std::uint64_t averaged_rows(const Sequences& s, std::size_t batch) {
  std::uint64_t rows = 0;
  for (std::size_t b = 0; b < batch; ++b) rows += averaged(s, b);
  return rows;
}

}  // namespace

void add_mapped_rows(ConstMatrix table, const RowMap& map, Matrix x) {
  require_width("add_mapped_rows", table, x);
  const Called called([&] { return row_call(Op::kAdd, {}, x.rows, x.cols, Kind::kAdd, 1, 12); });
  if (called.dry()) return;
  detail::in_pieces(x.rows, detail::rows_per_piece(x.cols),
                    [&](std::size_t begin, std::size_t end) {
                      HWY_DYNAMIC_DISPATCH(add_from_table)(table, map, x, begin, end);
                    });
}

void sum_mapped_rows(ConstMatrix x, const RowMap& map, Matrix table) {
  require_width("sum_mapped_rows", table, x);
  const Called called([&] { return row_call(Op::kAdd, {}, x.rows, x.cols, Kind::kAdd, 1, 12); });
  if (called.dry()) return;
  // By columns: two rows may go to the same place, two columns never do.
  detail::in_column_blocks(x.rows, x.cols, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(add_into_table)
    (x.slice_cols(begin, end - begin), map, table.slice_cols(begin, end - begin));
  });
}

void add_time_waves(std::span<const float> times, Matrix x) {
  const Called called([&] { return row_call(Op::kAdd, {}, x.rows, x.cols, Kind::kAdd, 1, 8); });
  if (called.dry()) return;
  require(times.size() == x.rows, "[add_time_waves] {} times of {} rows; need as many",
          times.size(), x.rows);
  detail::in_pieces(
      x.rows, detail::rows_per_piece(16 * x.cols), [&](std::size_t begin, std::size_t end) {
        for (std::size_t j = 0; j < x.cols; ++j) {
          const double exponent = static_cast<double>(j - j % 2) / static_cast<double>(x.cols);
          const double speed = std::pow(10000.0, -exponent);
          for (std::size_t r = begin; r < end; ++r) {
            const double angle = static_cast<double>(times[r]) * speed;
            x.row_data(r)[j] += static_cast<float>(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
          }
        }
      });
}

void zero_padding(const Sequences& s, Matrix x) {
  if (s.lengths.empty()) return;
  const Called called([&] { return move_call(x.rows, x.cols); });
  if (called.dry()) return;
  const Listener::Mute mute;
  for (std::size_t b = 0; b < s.lengths.size(); ++b) {
    fill(x.slice_rows(b * s.length + s.real(b), s.length - s.real(b)), 0.0F);
  }
}

void mean_rows(ConstMatrix x, const Sequences& s, Matrix mean) {
  require_width("mean_rows", mean, x);
  const Called called([&] {
    const std::uint64_t rows = averaged_rows(s, mean.rows);
    Call call = row_call(Op::kColumnSums, {}, rows, x.cols, Kind::kAdd, 1, 4);
    call.work += flops(Kind::kAdd, mean.size(), 8 * mean.size());
    return call;
  });
  if (called.dry()) return;
  const Listener::Mute mute;
  for (std::size_t b = 0; b < mean.rows; ++b) {
    const Matrix row = mean.slice_rows(b, 1);
    const std::size_t count = averaged(s, b);
    fill(row, 0.0F);
    add_column_sums(x.slice_rows(b * s.length, count), row.data);
    scale(1.0F / static_cast<float>(count), row);
  }
}

void spread_mean(Matrix dmean, const Sequences& s, Matrix dx) {
  require_width("spread_mean", dmean, dx);
  const Called called([&] {
    Call call = move_call(dx.rows, dx.cols);
    call.work += flops(Kind::kAdd, dmean.size(), 8 * dmean.size());
    return call;
  });
  if (called.dry()) return;
  const Listener::Mute mute;
  fill(dx, 0.0F);
  for (std::size_t b = 0; b < dmean.rows; ++b) {
    const Matrix row = dmean.slice_rows(b, 1);
    const std::size_t count = averaged(s, b);
    scale(1.0F / static_cast<float>(count), row);
    for (std::size_t i = 0; i < count; ++i) copy(row, dx.slice_rows(b * s.length + i, 1));
  }
}

void zero_rows_of(std::int32_t id, std::span<const std::int32_t> ids, Matrix x) {
  require(ids.size() == x.rows, "[zero_rows_of] {} ids for {} rows; need one each", ids.size(),
          x.rows);
  const Called called([&] { return move_call(x.rows, 1); });
  if (called.dry()) return;
  for (std::size_t r = 0; r < x.rows; ++r) {
    if (ids[r] == id) std::ranges::fill(x.row(r), 0.0F);
  }
}

namespace {

// `width` is that of the queries; 0 where their product is a gather.
Call attend_call(std::size_t width, ConstMatrix scores, ConstMatrix y) {
  const std::size_t batch = y.rows / scores.rows;
  const std::uint64_t pairs = std::uint64_t{batch} * scores.size();
  Call call = product_call("backward", y.rows, y.cols, scores.cols);
  call.work.maccs += pairs * width;
  call.work += flops(Kind::kSoftmax, 5 * pairs, 8 * pairs) + flops(Kind::kAdd, pairs, 8 * pairs);
  return call;
}

// Far below any score, and finite.
constexpr float kUnseen = -1e30F;

template <class Score>
void attend_each(ConstMatrix e, std::span<const std::int32_t> targets, float factor, Matrix scores,
                 Matrix y, Score score) {
  const Listener::Mute mute;
  const std::size_t n = scores.rows;
  const std::size_t m = scores.cols;
  for (std::size_t b = 0; b < y.rows / n; ++b) {
    const ConstMatrix own = e.slice_rows(b * m, m);
    const auto seen = targets.empty() ? targets : targets.subspan(b * m, m);
    const auto ignored = std::ranges::count(seen, kIgnoredTarget);
    if (static_cast<std::size_t>(ignored) == m) {
      fill(y.slice_rows(b * n, n), 0.0F);
      continue;
    }
    score(b, own);
    scale(factor, scores);
    for (std::size_t j = 0; ignored > 0 && j < m; ++j) {
      if (seen[j] != kIgnoredTarget) continue;
      for (std::size_t i = 0; i < n; ++i) scores.row_data(i)[j] = kUnseen;
    }
    softmax_forward(scores);
    gemm(scores, own, y.slice_rows(b * n, n));
  }
}

}  // namespace

void attend_sequences(ConstMatrix q, ConstMatrix e, std::span<const std::int32_t> targets,
                      float factor, Matrix scores, Matrix y) {
  const Called called([&] { return attend_call(q.cols, scores, y); });
  if (called.dry()) return;
  attend_each(e, targets, factor, scores, y, [&](std::size_t b, ConstMatrix own) {
    gemm(q.slice_rows(b * scores.rows, scores.rows), own, scores, {.transpose_b = true});
  });
}

void attend_one_hot(std::span<const std::int32_t> ids, ConstMatrix e,
                    std::span<const std::int32_t> targets, float factor, Matrix scores, Matrix y) {
  const Called called([&] { return attend_call(0, scores, y); });
  if (called.dry()) return;
  attend_each(e, targets, factor, scores, y, [&](std::size_t b, ConstMatrix own) {
    for (std::size_t i = 0; i < scores.rows; ++i) {
      const auto id = static_cast<std::size_t>(ids[b * scores.rows + i]);
      for (std::size_t j = 0; j < scores.cols; ++j) scores.row_data(i)[j] = own.row_data(j)[id];
    }
  });
}

void copy(ConstHeads x, Heads y) {
  require(x.batch == y.batch && x.heads == y.heads && x.n == y.n && x.d == y.d,
          "[copy] [{}, {}, {}, {}] and [{}, {}, {}, {}]; need equal shapes", x.batch, x.heads, x.n,
          x.d, y.batch, y.heads, y.n, y.d);
  const Called called([&] { return move_call(x.batch * x.heads * x.n, x.d); });
  if (called.dry()) return;
  const Listener::Mute mute;
  for (std::size_t b = 0; b < x.batch; ++b) {
    for (std::size_t h = 0; h < x.heads; ++h) copy(x.head(b, h), y.head(b, h));
  }
}

void sum_heads(ConstHeads x, Heads y) {
  require(x.heads > 0 && y.heads == 1 && x.batch == y.batch && x.n == y.n && x.d == y.d,
          "[sum_heads] [{}, {}, {}, {}] and [{}, {}, {}, {}]; need one head of equal shape",
          x.batch, x.heads, x.n, x.d, y.batch, y.heads, y.n, y.d);
  const std::size_t rows = x.batch * x.n;
  const Called called([&] {
    return row_call(Op::kAdd, {}, rows, x.d, Kind::kAdd, x.heads - 1, 4 * (x.heads + 1));
  });
  if (called.dry()) return;
  detail::in_pieces(rows, detail::rows_per_piece(x.heads * x.d),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t r = begin; r < end; ++r) {
                        const std::size_t b = r / x.n;
                        const std::size_t i = r % x.n;
                        float* to = y.head(b, 0).row_data(i);
                        std::copy_n(x.head(b, 0).row_data(i), x.d, to);
                        for (std::size_t h = 1; h < x.heads; ++h) {
                          HWY_DYNAMIC_DISPATCH(add_to)(x.head(b, h).row_data(i), to, x.d);
                        }
                      }
                    });
}

}  // namespace longspan
#endif  // HWY_ONCE
