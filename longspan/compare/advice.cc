#include "longspan/compare/advice.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/compare/approximation.h"
#include "longspan/compare/compare_plan.h"

namespace longspan {

namespace {

constexpr double kNoticeable = 0.95;  // of the pick's time: less is no change of mind
constexpr double kTie = 1.05;         // of the fastest's time: exact attention is preferred
constexpr int kDoublings = 4;         // how far other lengths are looked at

double measured_error(const AdviceQuestion& q, const std::string& attention) {
  const CompareCase what{q.settings, attention, std::min(q.length, kLongestError)};
  AttentionCase c = what.alone(kErrorHeads);
  c.backward = false;
  AttentionTensors tensors = random_tensors(c, q.settings.seed);
  return *approximation_error(c, tensors).output;
}

// What does not need the candidate to be run.
std::string refusal(const AdviceQuestion& q, const AdviceCandidate& c) {
  if (!c.prediction.refused.empty()) return c.prediction.refused;
  const double bytes = *c.prediction.memory.predicted;
  if (q.memory && bytes > *q.memory) {
    return fmt::format("needs {}", format_bytes(static_cast<std::uint64_t>(bytes)));
  }
  return "";
}

AdviceCandidate candidate(const Calibration& calibration, const AdviceQuestion& q,
                          const std::string& attention) {
  AdviceCandidate c;
  c.attention = attention;
  c.exact = abilities_of(attention).exact;
  c.prediction = predict_case(calibration, {q.settings, attention, q.length});
  c.refused = refusal(q, c);
  return c;
}

double seconds_of(const AdviceCandidate& c) { return c.prediction.time.predicted.value_or(1e30); }

// Whoever gives up nothing wins a tie, and flash among those.
void prefer_exact(std::vector<AdviceCandidate>& candidates) {
  const double limit = kTie * seconds_of(candidates.front());
  auto best = candidates.end();
  for (auto it = candidates.begin(); it != candidates.end() && seconds_of(*it) <= limit; ++it) {
    if (!it->refused.empty() || !it->exact) continue;
    if (best == candidates.end() || it->attention == "flash") best = it;
  }
  if (best != candidates.end()) std::rotate(candidates.begin(), best, best + 1);
}

}  // namespace

std::vector<std::string> advised_settings() {
  std::vector<std::string> all;
  for (const Mechanism& m : mechanisms()) {
    all.emplace_back(m.name);
    for (const std::string_view options : m.settings) {
      if (!options.empty()) all.push_back(fmt::format("{}:{}", m.name, options));
    }
  }
  return all;
}

const AdviceCandidate* Advice::pick() const {
  return candidates.empty() || !candidates.front().refused.empty() ? nullptr : &candidates.front();
}

const AdviceCandidate* Advice::find(std::string_view attention) const {
  const auto it = std::ranges::find(candidates, attention, &AdviceCandidate::attention);
  return it == candidates.end() ? nullptr : &*it;
}

Advice advise(const Calibration& calibration, const AdviceQuestion& q) {
  require(q.length > 0, "[advise] a length of 0; need at least 1");
  Advice advice;
  for (const std::string& attention : advised_settings()) {
    advice.candidates.push_back(candidate(calibration, q, attention));
    AdviceCandidate& c = advice.candidates.back();
    if (!q.error || !c.refused.empty()) continue;
    c.error = measured_error(q, attention);
    if (*c.error > *q.error) c.refused = fmt::format("has an error of {:.3g}", *c.error);
  }
  std::ranges::stable_sort(advice.candidates, {}, [](const AdviceCandidate& c) {
    return std::make_pair(!c.refused.empty(), seconds_of(c));
  });
  prefer_exact(advice.candidates);
  return advice;
}

std::optional<AdviceChange> advice_changes(const Calibration& calibration, const AdviceQuestion& q,
                                           const Advice& advice, bool longer) {
  const AdviceCandidate* now = advice.pick();
  if (now == nullptr) return std::nullopt;
  std::uint64_t n = q.length;
  for (int i = 0; i < kDoublings; ++i) {
    n = longer ? 2 * n : n / 2;
    if (n == 0 || n > kLongestCompared) break;
    AdviceQuestion there = q;
    there.length = n;
    std::vector<AdviceCandidate> candidates;
    for (const AdviceCandidate& other : advice.candidates) {
      // What an error ruled out stays out.
      if (q.error && (!other.error || *other.error > *q.error)) continue;
      AdviceCandidate c = candidate(calibration, there, other.attention);
      if (c.refused.empty()) candidates.push_back(std::move(c));
    }
    if (candidates.empty()) continue;
    std::ranges::stable_sort(candidates, {}, seconds_of);
    prefer_exact(candidates);
    const auto same = std::ranges::find(candidates, now->attention, &AdviceCandidate::attention);
    const AdviceCandidate& best = candidates.front();
    const bool exact_now = best.exact && !now->exact;
    if (same == candidates.end() || exact_now ||
        seconds_of(best) < kNoticeable * seconds_of(*same)) {
      return AdviceChange{n, best.attention};
    }
  }
  return std::nullopt;
}

std::string_view given_up(std::string_view attention) {
  const std::string_view what = find_mechanism(attention).gives_up;
  if (!what.empty()) return what;
  return abilities_of(attention).exact ? "nothing: it is exact"
                                       : "no keys, though its weights are its own";
}

}  // namespace longspan
