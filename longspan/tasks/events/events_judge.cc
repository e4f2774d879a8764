// How good models of events are, and the processes beside them.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "longspan/base/parallel.h"
#include "longspan/base/published_hawkes.h"
#include "longspan/tasks/events/events.h"
#include "longspan/tasks/events/waits.h"

namespace longspan {

EventScore EventsTask::judged(const HawkesProcess& process, Split split) const {
  EventScore score;
  for (const Set* set : sets(split)) {
    for (const EventSequence& events : set->sequences) {
      process.judge(events, window() / unit_, longest_, score);
    }
  }
  return score;
}

void EventsTask::arrange(Split split, std::size_t /*count*/) {
  if (training_.pieces.empty() || beside_.contains(split)) return;
  if (known_ && known_->checksum != checksum_) return;
  if (!baselines_) {
    constexpr std::size_t kMostFittedTypes = 128;  // a Hawkes process has a number for each pair
    const double until = window() / unit_;
    baselines_.emplace(Baselines{fit_poisson(training_.sequences, types_, until), {}});
    if (types_ <= kMostFittedTypes) {
      baselines_->hawkes = fit_hawkes(training_.sequences, types_, until);
    }
  }
  Beside beside{judged(baselines_->poisson, split), {}};
  if (baselines_->hawkes) beside.hawkes = judged(*baselines_->hawkes, split);
  beside_.emplace(split, std::move(beside));
}

void EventsTask::add_published(const Batch& batch, ConstMatrix scores, Tally& tally) const {
  for (std::size_t b = 0; b < batch.batch; ++b) {
    const std::size_t first = b * batch.length;
    const PublishedSequence sequence{
        batch.tokens.subspan(first, static_cast<std::size_t>(batch.lengths[b])),
        batch.times.subspan(first, batch.length)};
    const PublishedSums sums =
        published_hawkes({}, sequence, scores.slice_rows(first, batch.length), nullptr, 0.0);
    tally.likelihood += sums.events - sums.rest;
  }
  for (std::size_t r = 0; r < scores.rows; ++r) {
    if (batch.targets[r] < 0) continue;
    const double error = static_cast<double>(scores.row(r).back()) - batch.values[r];
    tally.squares += error * error;
  }
}

void EventsTask::add(const Batch& batch, ConstMatrix scores, Tally& tally) const {
  if (published()) return add_published(batch, scores, tally);
  std::vector<double> rescaled(scores.rows);
  std::vector<double> errors(scores.rows);
  parallel_for(scores.rows, [&](std::size_t r, std::size_t) {
    if (batch.targets[r] < 0) return;
    const Intensities row(config_.decay, scores.row(r));
    rescaled[r] = row.integral(batch.values[r]);
    errors[r] = expected_wait([&](double s) { return row.total(s); }, longest_) - batch.values[r];
  });
  for (std::size_t r = 0; r < scores.rows; ++r) {
    if (batch.targets[r] < 0) continue;
    tally.rescaled.push_back(rescaled[r]);
    tally.squares += errors[r] * errors[r];
  }
}

// Of a process that stands beside the model, on the whole split.
void EventsTask::tell(std::string_view name, const EventScore& score, Judgement& judgement) const {
  const double events = static_cast<double>(std::max<std::size_t>(score.events, 1));
  const double likelihood = score.log_likelihood / events - std::log(unit_);
  const double accuracy = static_cast<double>(score.correct) / events;
  const double error = unit_ * std::sqrt(score.squares / events);
  const KolmogorovSmirnov fit = exponential_fit(score.rescaled);
  judgement.metrics.insert(
      judgement.metrics.end(),
      {{std::string(name), likelihood,
        fmt::format("{:.4f} nats per event, {:.2f} % of the types, rmse {:.4g}, ks {:.4f}",
                    likelihood, 100.0 * accuracy, error, fit.distance)},
       {fmt::format("{}_accuracy", name), accuracy, ""},
       {fmt::format("{}_rmse", name), error, ""},
       {fmt::format("{}_ks", name), fit.distance, ""},
       {fmt::format("{}_ks_p", name), fit.p, ""}});
}

Judgement EventsTask::judge(Split split, const Tally& tally) const {
  const auto events = static_cast<double>(std::max<std::size_t>(tally.counted, 1));
  // A time in mean gaps is shorter by the factor unit_, and an intensity as much higher. What the
  // published code calls a likelihood has no unit.
  const double likelihood =
      published() ? tally.likelihood / events : -tally.mean_loss() - std::log(unit_);
  const std::string_view named = published() ? "published_likelihood" : "log_likelihood";
  const double error = unit_ * std::sqrt(tally.squares / events);
  Judgement judgement{
      .split = split,
      .counted = "events",
      .count = tally.counted,
      .metrics = {{"loss", tally.mean_loss(), fmt::format("{:.4f} per event", tally.mean_loss())},
                  {std::string(named), likelihood,
                   fmt::format(
                       "{:.4f} {}", likelihood,
                       published() ? "per event, which is no likelihood" : "nats per event")},
                  {"accuracy", tally.accuracy(),
                   fmt::format("{:.2f} % of the types", 100.0 * tally.accuracy())},
                  {"rmse", error, fmt::format("{:.4g} of the time of the next event", error)}},
      .subject = fmt::format("{} {} sequences", tally.sequences, name_of(split))};
  judgement.line = fmt::format("{} {:.4f} per event, accuracy {:.2f} %",
                               published() ? "published likelihood" : "log-likelihood", likelihood,
                               100.0 * tally.accuracy());
  if (!published()) {
    const KolmogorovSmirnov fit = exponential_fit(tally.rescaled);
    judgement.metrics.push_back(
        {"ks", fit.distance,
         fmt::format("{:.4f} of rescaled gaps, p = {:.2g}", fit.distance, fit.p)});
    judgement.metrics.push_back({"ks_p", fit.p, ""});
  }
  const auto beside = beside_.find(split);
  if (beside == beside_.end()) return judgement;
  tell("poisson", beside->second.poisson, judgement);
  if (beside->second.hawkes) tell("hawkes", *beside->second.hawkes, judgement);
  return judgement;
}

}  // namespace longspan
