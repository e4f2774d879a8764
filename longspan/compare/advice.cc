#include "longspan/compare/advice.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/base/memory.h"
#include "longspan/compare/approximation.h"
#include "longspan/compare/compare_plan.h"

namespace longspan {

namespace {

constexpr double kMostErrorWork = 0x1p32;    // n²·width of what an error is measured on
constexpr std::uint64_t kShortestError = 8;  // tokens

// Of one sequence: errors are averages. All candidates see the same one, which is drawn once.
class Errors {
 public:
  Errors(const AdviceQuestion& q, std::uint64_t longest) : q_(q), longest_(longest) {}

  // Fills in the error, or says why there is none.
  std::string measure(AdviceCandidate& c) {
    try {
      c.error = of(c);
    } catch (const SystemError&) {
      throw;
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

 private:
  double of(AdviceCandidate& candidate) {
    CompareCase what{q_.settings, candidate.attention, std::min(q_.length, longest_)};
    what.settings.batch = 1;
    AttentionCase c = what.alone(kErrorHeads);
    c.backward = false;
    const double most = std::sqrt(kMostErrorWork / static_cast<double>(c.width()));
    require(most >= static_cast<double>(kShortestError),
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

// Those that answer first, by rising predicted time.
void rank_candidates(std::vector<AdviceCandidate>& candidates) {
  std::ranges::stable_sort(candidates, {}, [](const AdviceCandidate& c) {
    return std::make_pair(!c.refused.empty(), seconds_of(c));
  });
  const auto answers = [](const AdviceCandidate& c) { return c.refused.empty(); };
  for (AdviceCandidate& c : candidates) {
    c.tied = answers(c) && *c.prediction.time.low <= *candidates.front().prediction.time.high;
  }
}

// Of those that are tied the one that gives up least: of exact ones flash or else the fastest, of
// others the one with the least error that is known.
auto least_given_up(std::vector<AdviceCandidate>& candidates) {
  const auto cost = [](const AdviceCandidate& c) {
    constexpr double kUnknown = std::numeric_limits<double>::infinity();
    return std::make_tuple(!c.tied, !c.exact, c.exact && c.attention != "flash",
                           c.exact ? 0.0 : c.error.value_or(kUnknown));
  };
  return std::ranges::min_element(candidates, {}, cost);
}

bool exact_is_tied(const std::vector<AdviceCandidate>& candidates) {
  return std::ranges::any_of(candidates,
                             [](const AdviceCandidate& c) { return c.tied && c.exact; });
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
  const std::vector<std::string> settings = advised_settings();
  Advice advice;
  Errors errors(q, kLongestError);
  for (const std::string& attention : settings) {
    if (progress) progress(advice.candidates.size(), settings.size(), attention);
    advice.candidates.push_back(candidate(calibration, q, attention));
    AdviceCandidate& c = advice.candidates.back();
    if (!q.error || !c.refused.empty()) continue;
    c.refused = errors.measure(c);
    // What is exact errs by rounding alone.
    if (!c.exact && c.error && *c.error > *q.error)
      c.refused = fmt::format("has an error of {:.3g} at n = {}", *c.error, c.error_length);
  }
  std::vector<AdviceCandidate>& all = advice.candidates;
  rank_candidates(all);
  if (!exact_is_tied(all)) {
    Errors of_tied(q, kLongestTie);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].tied || all[i].error) continue;
      if (progress) progress(i, all.size(), all[i].attention);
      of_tied.measure(all[i]);
    }
  }
  const auto pick = least_given_up(all);
  std::rotate(all.begin(), pick, pick + 1);
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
      if (c.refused.empty()) candidates.push_back(std::move(c));
    }
    if (candidates.empty()) continue;
    rank_candidates(candidates);
    const auto same = std::ranges::find(candidates, now->attention, &AdviceCandidate::attention);
    const bool stays = same != candidates.end() && same->tied;
    if (stays && (now->exact || !exact_is_tied(candidates))) continue;
    return AdviceChange{n, least_given_up(candidates)->attention};
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
