// Plain loops: rows have few types.
#include "longspan/kernels/rows/point_process.h"

#include <algorithm>
#include <array>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/kernels/pieces.h"

namespace longspan {

namespace {

// Of one row; with `scale` its scores become the gradient.
PointProcessSum row_sum(EventModel model, std::span<const float> scores, std::int32_t type,
                        double tau, float* gradient, double scale) {
  PointProcessSum sum;
  const Intensities intensities(model.decay, scores);
  const std::size_t types = intensities.types();
  const std::size_t parts = scores_per_type(model.decay);
  const bool event = type >= 0;
  std::size_t likeliest = 0;
  double highest = 0.0;
  for (std::size_t k = 0; k < types; ++k) {
    const IntensityTerm t = intensities.term(k, tau, model.integration);
    const bool happened = event && static_cast<std::size_t>(type) == k;
    sum.loss += t.integral - (happened ? t.log_rate() : 0.0);
    if (k == 0 || t.argument > highest) {
      likeliest = k;
      highest = t.argument;
    }
    if (gradient == nullptr) continue;
    const double slope = happened ? t.d_log_rate() : 0.0;
    for (std::size_t part = 0; part < parts; ++part) {
      gradient[part * types + k] =
          static_cast<float>(scale * (t.d_integral[part] - slope * t.d_argument[part]));
    }
  }
  if (event) {
    sum.events = 1;
    sum.correct = likeliest == static_cast<std::size_t>(type) ? 1 : 0;
  }
  return sum;
}

void check_rows(Decay decay, ConstMatrix scores, const EventRows& rows) {
  const std::size_t parts = scores_per_type(decay);
  require(scores.cols > 0 && scores.cols % parts == 0 && rows.types.size() == scores.rows &&
              rows.gaps.size() == scores.rows,
          "[events] {}×{} scores, {} types and {} gaps; need {} scores a type and one gap a row",
          scores.rows, scores.cols, rows.types.size(), rows.gaps.size(), parts);
}

// Blocks of rows, at most kBlocks, so that their sums fit on the stack and are added in order.
template <class Body>
PointProcessSum total(std::size_t rows, std::size_t cols, const Body& body) {
  constexpr std::size_t kBlocks = 128;
  constexpr std::size_t kSlow = 64;  // a score takes as long as so many elements of other loops
  const std::size_t grain =
      std::max(detail::rows_per_piece(kSlow * cols), divide_up(rows, kBlocks));
  std::array<PointProcessSum, kBlocks> parts{};
  detail::in_pieces(rows, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const PointProcessSum row = body(r);
      PointProcessSum& part = parts[begin / grain];
      part.loss += row.loss;
      part.events += row.events;
      part.correct += row.correct;
    }
  });
  PointProcessSum sum;
  for (const PointProcessSum& part : parts) {
    sum.loss += part.loss;
    sum.events += part.events;
    sum.correct += part.correct;
  }
  return sum;
}

Call events_call(ConstMatrix scores, std::uint64_t flops_each) {
  return row_call(Op::kLoss, {}, scores.rows, scores.cols, Kind::kSoftmax, flops_each, 8);
}

}  // namespace

PointProcessSum point_process(EventModel model, ConstMatrix scores, const EventRows& rows) {
  check_rows(model.decay, scores, rows);
  const Called called([&] { return events_call(scores, 20); });
  if (called.dry()) return {};
  return total(scores.rows, scores.cols, [&](std::size_t r) {
    if (rows.types[r] == kIgnoredRow) return PointProcessSum{};
    return row_sum(model, scores.row(r), rows.types[r], rows.gaps[r], nullptr, 0.0);
  });
}

PointProcessSum point_process_gradient(EventModel model, Matrix scores, const EventRows& rows,
                                       float scale) {
  check_rows(model.decay, scores, rows);
  const Called called([&] { return events_call(scores, 30); });
  if (called.dry()) return {};
  return total(scores.rows, scores.cols, [&](std::size_t r) {
    float* const row = scores.row_data(r);
    if (rows.types[r] == kIgnoredRow) {
      std::fill_n(row, scores.cols, 0.0F);
      return PointProcessSum{};
    }
    // Types are read one by one, each before its scores are written.
    return row_sum(model, scores.row(r), rows.types[r], rows.gaps[r], row, scale);
  });
}

}  // namespace longspan
