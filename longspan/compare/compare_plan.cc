#include "longspan/compare/compare_plan.h"

#include <fmt/core.h>

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/base/memory.h"

namespace longspan {

namespace {

constexpr double kLongPass = 0.1;         // seconds from which fewer rounds do
constexpr std::uint64_t kFewRounds = 3;   //
constexpr double kUsable = 0.8;           // of the memory that is there
constexpr double kPlanned = 0.92;         // of the budget; the rest is for what is not predicted
constexpr double kShortestSample = 2e-3;  // as in SampleOptions

class Planner {
 public:
  Planner(const Calibration& c, const PlanRequest& r,
          const std::function<bool(const std::string&, std::uint64_t)>& known)
      : calibration_(c), request_(r), known_(known) {}

  // Whether anything of this length is to be measured.
  bool add_length(std::uint64_t length);
  ComparePlan take() { return std::move(plan_); }

 private:
  PlannedPoint look(const std::string& attention, std::uint64_t length) const;
  void decide(PlannedPoint& p);

  const Calibration& calibration_;
  const PlanRequest& request_;
  const std::function<bool(const std::string&, std::uint64_t)>& known_;
  ComparePlan plan_;
};

PlannedPoint Planner::look(const std::string& attention, std::uint64_t length) const {
  PlannedPoint p;
  p.what = {request_.settings, attention, length};
  p.prediction = predict_case(calibration_, p.what);
  if (!p.prediction.refused.empty()) {
    p.status = PointStatus::kRefused;
    p.reason = p.prediction.refused;
    return p;
  }
  const double pass = *p.prediction.time.predicted;
  p.rounds = pass > kLongPass ? std::min(kFewRounds, request_.rounds) : request_.rounds;
  const double sample = std::max(pass, std::min(kShortestSample + pass, 2.0 * kShortestSample));
  p.seconds = p.prediction.building + 2.0 * pass + static_cast<double>(p.rounds) * sample +
              predict_error_seconds(calibration_, p.what);
  return p;
}

void Planner::decide(PlannedPoint& p) {
  if (p.status || known_(p.what.attention, p.what.length)) return;
  const double bytes = *p.prediction.memory.predicted;
  if (bytes > kUsable * request_.memory) {
    p.status = PointStatus::kSkipped;
    p.reason =
        fmt::format("needs {}; {} may be used", format_bytes(static_cast<std::uint64_t>(bytes)),
                    format_bytes(static_cast<std::uint64_t>(kUsable * request_.memory)));
  } else if (plan_.seconds + p.seconds > kPlanned * request_.settings.budget_seconds) {
    p.status = PointStatus::kSkipped;
    p.reason = fmt::format("does not fit the budget: would take {:.1f} s", p.seconds);
  } else {
    p.measured = true;
    plan_.seconds += p.seconds;
  }
}

bool Planner::add_length(std::uint64_t length) {
  std::vector<PlannedPoint> points;
  for (const std::string& attention : request_.attention) points.push_back(look(attention, length));
  // flash is what the others are compared with; then those that leave most for others.
  const auto rank = [](const PlannedPoint& p) {
    return p.what.attention == "flash" ? 0.0 : 1.0 + p.seconds;
  };
  std::ranges::stable_sort(points, {}, rank);
  bool any = false;
  for (PlannedPoint& p : points) {
    decide(p);
    any = any || p.measured;
  }
  plan_.lengths.push_back(length);
  plan_.points.insert(plan_.points.end(), points.begin(), points.end());
  return any;
}

}  // namespace

void check_lengths(const PlanRequest& request) {
  for (const std::uint64_t length : request.lengths) {
    require(length >= 1 && length <= kLongestCompared,
            "[compare] a length of {}; need 1 to {} tokens", length, kLongestCompared);
  }
}

ComparePlan plan_comparison(const Calibration& calibration, const PlanRequest& request,
                            const std::function<bool(const std::string&, std::uint64_t)>& known) {
  check_lengths(request);
  Planner planner(calibration, request, known);
  for (const std::uint64_t length : request.lengths) planner.add_length(length);
  if (!request.lengths.empty()) return planner.take();
  for (std::uint64_t n = kShortestCompared; n <= kLongestCompared; n *= 2) {
    if (!planner.add_length(n) && n >= kPredictedLength) break;
  }
  return planner.take();
}

}  // namespace longspan
