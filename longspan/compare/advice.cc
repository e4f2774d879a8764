#include "longspan/compare/advice.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/compare/approximation.h"
#include "longspan/compare/compare_plan.h"
#include "longspan/compare/verdict.h"

namespace longspan {

namespace {

constexpr double kMostErrorWork = 0x1p32;    // n²·width of what an error is measured on
constexpr std::uint64_t kShortestError = 8;  // tokens
constexpr std::size_t kWidestError = 2048;   // some mechanisms have weights of the width squared

// Of one sequence: errors are averages. All candidates see the same one, which is drawn once.
class Errors {
 public:
  Errors(const AdviceQuestion& q, std::uint64_t longest) : q_(q), longest_(longest) {}

  // Fills in the error, unless it cannot be measured, and what follows from it.
  void measure(AdviceCandidate& c) {
    try {
      c.error = of(c);
    } catch (const SystemError&) {
      throw;
    } catch (const Error&) {
      c.error.reset();
    }
    c.trained_only = !replaces_exact(c.exact, c.error, q_.error.value_or(kReplaces));
  }

 private:
  double of(AdviceCandidate& candidate) {
    CompareCase what{q_.settings, candidate.attention, std::min(q_.length, longest_)};
    what.settings.batch = 1;
    AttentionCase c = what.alone(kErrorHeads);
    c.backward = false;
    const double most = std::sqrt(kMostErrorWork / static_cast<double>(c.width()));
    require(c.width() <= kWidestError && most >= static_cast<double>(kShortestError),
            "[advise] heads {} wide; need narrower ones to measure errors", c.d_head);
    c.length = std::min(c.length, static_cast<std::size_t>(most));
    candidate.error_length = c.length;
    if (!tensors_) tensors_ = random_tensors(c, q_.settings.seed);
    return *approximation_error(c, *tensors_).output;
  }

  const AdviceQuestion& q_;
  std::uint64_t longest_;
  std::optional<AttentionTensors> tensors_;
};

AdviceCandidate candidate(const Calibration& calibration, const AdviceQuestion& q,
                          const std::string& attention) {
  AdviceCandidate c;
  c.attention = attention;
  c.exact = abilities_of(attention).exact;
  c.prediction = predict_case(calibration, {q.settings, attention, q.length});
  return c;
}

// Its place among those that were judged.
std::size_t place_of(const AdviceQuestion& q, const std::string& attention) {
  const auto it = std::ranges::find(q.judged, attention, &JudgedMechanism::attention);
  return static_cast<std::size_t>(it - q.judged.begin());
}

// Why it does not answer; empty: it does.
std::string refusal(const AdviceQuestion& q, const AdviceCandidate& c) {
  if (!c.prediction.refused.empty()) return c.prediction.refused;
  const double bytes = *c.prediction.memory.predicted;
  if (q.memory && bytes > *q.memory) {
    return fmt::format("needs {}", format_bytes(static_cast<std::uint64_t>(bytes)));
  }
  if (!q.replaces()) return q.judged[place_of(q, c.attention)].worse;
  if (!c.trained_only) return "";
  return c.error ? fmt::format("has an error of {:.3g} at n = {}", *c.error, c.error_length)
                 : "has an error that is not known";
}

// Those that answer first, by rising predicted time.
void rank_candidates(std::vector<AdviceCandidate>& candidates) {
  std::ranges::stable_sort(candidates, {}, [](const AdviceCandidate& c) {
    return std::make_pair(!c.refused.empty(), c.prediction.time.predicted.value_or(1e30));
  });
}

// Of those that answer, which stand first; says who is tied. Null where none does.
const AdviceCandidate* pick_of(const AdviceQuestion& q, std::vector<AdviceCandidate>& candidates) {
  std::vector<Contender> contenders;
  for (const AdviceCandidate& c : candidates) {
    if (!c.refused.empty()) break;
    const CompareTime& t = c.prediction.time;
    const double given_up =
        q.replaces() ? c.error.value_or(0.0) : static_cast<double>(place_of(q, c.attention));
    contenders.push_back({c.attention, c.exact, *t.low, *t.predicted, *t.high, given_up});
  }
  if (contenders.empty()) return nullptr;
  const Verdict verdict = decide(contenders);
  for (std::size_t i = 0; i < contenders.size(); ++i) candidates[i].tied = verdict.tied[i];
  return &candidates[verdict.pick];
}

std::vector<std::string> asked_about(const AdviceQuestion& q) {
  if (q.replaces()) return advised_settings();
  std::vector<std::string> all;
  for (const JudgedMechanism& m : q.judged) all.push_back(m.attention);
  return all;
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

void check_question(const AdviceQuestion& q) {
  require(q.length >= 1 && q.length <= kLongestCompared,
          "[advise] a length of {}; need 1 to {} tokens", q.length, kLongestCompared);
}

Advice advise(const Calibration& calibration, const AdviceQuestion& q,
              const AdviceProgress& progress) {
  check_question(q);
  const std::vector<std::string> asked = asked_about(q);
  Advice advice;
  Errors errors(q, q.error ? kLongestError : kLongestGlance);
  for (const std::string& attention : asked) {
    if (progress) progress(advice.candidates.size(), asked.size(), attention);
    AdviceCandidate& c = advice.candidates.emplace_back(candidate(calibration, q, attention));
    if (q.replaces() && c.prediction.refused.empty()) errors.measure(c);
    c.refused = refusal(q, c);
  }
  std::vector<AdviceCandidate>& all = advice.candidates;
  rank_candidates(all);
  if (const AdviceCandidate* pick = pick_of(q, all)) {
    const auto at = all.begin() + (pick - all.data());
    std::rotate(all.begin(), at, at + 1);
  }
  return advice;
}

std::optional<AdviceChange> advice_changes(const Calibration& calibration, const AdviceQuestion& q,
                                           const Advice& advice, bool longer) {
  const AdviceCandidate* now = advice.pick();
  if (now == nullptr || q.error) return std::nullopt;
  std::uint64_t n = q.length;
  for (int i = 0; i < kDoublings; ++i) {
    n = longer ? 2 * n : n / 2;
    if (n == 0 || n > kLongestCompared) break;
    AdviceQuestion there = q;
    there.length = n;
    std::vector<AdviceCandidate> candidates;
    for (const AdviceCandidate& other : advice.candidates) {
      AdviceCandidate c = candidate(calibration, there, other.attention);
      c.error = other.error;
      c.error_length = other.error_length;
      c.trained_only = other.trained_only;
      c.refused = refusal(there, c);
      candidates.push_back(std::move(c));
    }
    rank_candidates(candidates);
    const AdviceCandidate* pick = pick_of(there, candidates);
    if (pick == nullptr) return AdviceChange{n, ""};
    const auto same = std::ranges::find(candidates, now->attention, &AdviceCandidate::attention);
    if (same->tied && same->exact == pick->exact) continue;
    return AdviceChange{n, pick->attention};
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
