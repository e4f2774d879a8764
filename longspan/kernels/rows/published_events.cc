#include "longspan/kernels/rows/published_events.h"

#include "longspan/base/call.h"
#include "longspan/base/error.h"

namespace longspan {

namespace {

void check_published(ConstMatrix scores, const PublishedRows& rows) {
  const std::size_t all = rows.batch * rows.length;
  require(scores.cols % 2 == 1 && scores.cols > 1 && scores.rows == all &&
              rows.types.size() == all && rows.times.size() == all,
          "[events] {}×{} scores, {} types and {} times; need 2 scores a type, 1 of the next time, "
          "and {} rows",
          scores.rows, scores.cols, rows.types.size(), rows.times.size(), all);
}

Call published_call(ConstMatrix scores, std::uint64_t flops_each) {
  return row_call(Op::kLoss, {}, scores.rows, scores.cols, Kind::kSoftmax, flops_each, 8);
}

}  // namespace

PublishedSequence PublishedRows::sequence(std::size_t i) const {
  const std::size_t events = lengths.empty() ? length : static_cast<std::size_t>(lengths[i]);
  const std::size_t draws = (length - 1) * kPublishedDraws;
  return {types.subspan(i * length, events), times.subspan(i * length, length),
          uniform.empty() ? uniform : uniform.subspan(i * draws, draws)};
}

PublishedSums published_events(const PublishedHawkes& model, ConstMatrix scores,
                               const PublishedRows& rows) {
  check_published(scores, rows);
  const Called called([&] { return published_call(scores, 20); });
  PublishedSums sums;
  if (called.dry()) return sums;
  for (std::size_t i = 0; i < rows.batch; ++i) {
    sums.add(published_hawkes(model, rows.sequence(i),
                              scores.slice_rows(i * rows.length, rows.length), nullptr, 0.0));
  }
  return sums;
}

PublishedSums published_events_gradient(const PublishedHawkes& model, Matrix scores,
                                        const PublishedRows& rows, float scale) {
  check_published(scores, rows);
  const Called called([&] { return published_call(scores, 30); });
  PublishedSums sums;
  if (called.dry()) return sums;
  for (std::size_t i = 0; i < rows.batch; ++i) {
    const Matrix own = scores.slice_rows(i * rows.length, rows.length);
    sums.add(published_hawkes(model, rows.sequence(i), own, &own, scale));
  }
  return sums;
}

}  // namespace longspan
