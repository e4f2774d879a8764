#include "longspan/report/compare_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "longspan/base/error.h"
#include "longspan/base/median.h"
#include "longspan/base/resident.h"
#include "longspan/compare/verdict.h"

namespace longspan {

namespace {

constexpr double kClearlyFaster = 1.0 / 1.15;  // of the baseline's time; closer is a tie

// Two digits are what an interpolated length is worth.
std::uint64_t rounded(double length) {
  const double unit = std::pow(10.0, std::floor(std::log10(length)) - 1.0);
  return static_cast<std::uint64_t>(std::llround(std::round(length / unit) * unit));
}

std::string text_of(double length) { return with_commas(rounded(length)); }

// Times of a mechanism and of the baseline where both are known.
struct Race {
  std::uint64_t length;
  double ratio;  // mechanism / baseline
  bool measured;
};
std::vector<Race> race(const CompareRecord& r, const std::string& mechanism) {
  std::vector<Race> all;
  for (const std::uint64_t n : r.lengths) {
    const auto own = shown_time(r.find(mechanism, n));
    const auto baseline = shown_time(r.find(kBaseline, n));
    if (!own || !baseline) continue;
    // A measured and a predicted time are not set against each other.
    if (own->measured == baseline->measured) {
      all.push_back({n, own->seconds / baseline->seconds, own->measured});
      continue;
    }
    const ComparePoint* p = r.find(mechanism, n);
    const ComparePoint* b = r.find(kBaseline, n);
    if (p->time->predicted && b->time->predicted) {
      all.push_back({n, *p->time->predicted / *b->time->predicted, false});
    }
  }
  return all;
}

// The length from which the ratio stays below `limit`; `races` has at least one.
CompareCrossover crossover_of(const std::vector<Race>& races, double limit) {
  std::size_t first = races.size();
  while (first > 0 && races[first - 1].ratio < limit) --first;
  const auto mark = [](bool measured) { return measured ? "" : " (predicted)"; };
  if (first == races.size()) {
    const Race& last = races.back();
    return {std::nullopt, last.measured,
            fmt::format("not faster than {} up to n = {}{}", kBaseline, with_commas(last.length),
                        mark(last.measured))};
  }
  if (first == 0) {
    const bool measured = std::ranges::all_of(races, &Race::measured);
    return {static_cast<double>(races[0].length), measured,
            fmt::format("faster than {} at every length compared{}", kBaseline, mark(measured))};
  }
  const Race& before = races[first - 1];
  const Race& after = races[first];
  const double a = std::log(before.ratio / limit);
  const double b = std::log(limit / after.ratio);
  const double share = a + b > 0.0 ? a / (a + b) : 1.0;
  const double length =
      static_cast<double>(before.length) *
      std::pow(static_cast<double>(after.length) / static_cast<double>(before.length),
               std::clamp(share, 0.0, 1.0));
  const bool measured = before.measured && after.measured;
  return {length, measured,
          fmt::format("faster than {} from n ≈ {}{}", kBaseline, text_of(length), mark(measured))};
}

void fit_mechanism(const CompareRecord& r, CompareMechanism& m) {
  std::vector<std::pair<double, double>> times;
  std::vector<std::pair<double, double>> memory;
  for (const std::uint64_t n : r.lengths) {
    const ComparePoint* p = r.find(m.name, n);
    if (p == nullptr || p->status != PointStatus::kOk) continue;
    if (p->time && p->time->measured) times.emplace_back(n, *p->time->measured);
    if (p->memory && p->memory->measured) memory.emplace_back(n, *p->memory->measured);
  }
  m.time_exponent = fitted_exponent(times);
  m.memory_exponent = fitted_exponent(memory);
  m.crossover.reset();
  if (m.name == kBaseline) return;
  if (const auto races = race(r, m.name); !races.empty()) m.crossover = crossover_of(races, 1.0);
}

ComparePrediction prediction_of(const CompareRecord& r) {
  std::vector<double> time;
  std::vector<double> memory;
  for (const ComparePoint& p : r.points) {
    if (p.status != PointStatus::kOk || !p.time || !p.time->measured) continue;
    if (p.time->predicted) time.push_back(std::abs(*p.time->predicted / *p.time->measured - 1.0));
    if (!p.memory || !p.memory->predicted) continue;
    const auto held = p.memory->resident;
    if (!held || std::min(*held, *p.memory->predicted) < double{kTellingGrowth}) continue;
    memory.push_back(std::abs(*p.memory->predicted / *held - 1.0));
  }
  ComparePrediction out;
  out.points = time.size();
  if (!time.empty()) {
    out.time_median_error = median(time);
    out.time_worst_error = std::ranges::max(time);
  }
  if (!memory.empty()) {
    out.memory_median_error = median(memory);
    out.memory_worst_error = std::ranges::max(memory);
  }
  return out;
}

std::vector<CompareFusion> fusion_of(const CompareRecord& r) {
  std::vector<CompareFusion> all;
  for (const std::uint64_t n : r.lengths) {
    const ComparePoint* full = r.find("full", n);
    const ComparePoint* flash = r.find(kBaseline, n);
    if (full == nullptr || flash == nullptr || !full->kinds || !flash->kinds) continue;
    all.push_back({n, *full->time->measured, *flash->time->measured, *full->kinds, *flash->kinds});
  }
  return all;
}

struct Leader {
  const CompareMechanism* mechanism = nullptr;
  ShownTime time;
  std::optional<std::uint64_t> error_length = std::nullopt;  // at which it was chosen by its error
};

bool is_baseline(const Leader& l) { return l.mechanism->name == kBaseline; }

// Of the output.
std::optional<double> error_at(const CompareRecord& r, const CompareMechanism& m,
                               std::optional<std::uint64_t> length) {
  if (m.exact) return 0.0;
  const ComparePoint* p = length ? r.find(m.name, *length) : nullptr;
  return p != nullptr && p->error ? p->error->output : std::nullopt;
}

// Whether it may take the place of exact attention, by its error at this length, or else at the one
// at which most are known.
bool replaces_at(const CompareRecord& r, const CompareMechanism& m, std::uint64_t length) {
  const auto here = error_at(r, m, length);
  return replaces_exact(m.exact, here ? here : error_at(r, m, error_length(r)));
}

// Those with a time at a length that replace exact attention, or those that do not: what was
// measured of them all, or else everything.
std::vector<Leader> runners_at(const CompareRecord& r, std::uint64_t length, bool replace) {
  std::vector<Leader> all;
  bool measured = false;
  for (const CompareMechanism& m : r.mechanisms) {
    const auto time = shown_time(r.find(m.name, length));
    if (!time) continue;
    measured = measured || time->measured;
    if (replaces_at(r, m, length) == replace) all.push_back({&m, *time});
  }
  std::erase_if(all, [&](const Leader& l) { return measured && !l.time.measured; });
  return all;
}

// By the rule of verdict.h: which of the fastest is first changes from run to run.
Leader leader_at(const CompareRecord& r, std::uint64_t length, bool replace = true) {
  std::vector<Leader> all = runners_at(r, length, replace);
  if (all.empty()) return {};
  std::vector<Contender> contenders;
  for (const Leader& l : all) {
    const double seconds = l.time.seconds;
    contenders.push_back(
        {l.mechanism->name, l.mechanism->exact, kClearlyFaster * seconds, seconds, seconds});
  }
  // Errors are those of this length where all that decide are known, else of the one at which most
  // are.
  const std::vector<bool> tied = decide(contenders).tied;
  bool here = true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    here = here && (!tied[i] || error_at(r, *all[i].mechanism, length));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].error_length = here ? length : error_length(r);
    constexpr double kUnknown = std::numeric_limits<double>::infinity();
    contenders[i].given_up = error_at(r, *all[i].mechanism, all[i].error_length).value_or(kUnknown);
  }
  return all[decide(contenders).pick];
}

// What the leader's error was measured on.
std::string error_inputs(const CompareRecord& r, const Leader& leader, std::uint64_t length) {
  const std::uint64_t there = leader.error_length.value_or(length);
  return inputs_text(r.settings) +
         (there == length ? "" : fmt::format(" at n = {}", with_commas(there)));
}

std::string error_text(const CompareRecord& r, const Leader& leader, std::uint64_t length) {
  const auto error = error_at(r, *leader.mechanism, leader.error_length);
  if (leader.mechanism->exact || !error) return "";
  return fmt::format(", with a relative error of {:.2g} on {}", *error,
                     error_inputs(r, leader, length));
}

// What is clearly faster still, but in no model that exists.
std::string trained_only_at(const CompareRecord& r, std::uint64_t length, const Leader& leader) {
  const Leader other = leader_at(r, length, /*replace=*/false);
  if (other.mechanism == nullptr || other.time.measured != leader.time.measured ||
      other.time.seconds >= kClearlyFaster * leader.time.seconds) {
    return "";
  }
  const auto error = error_at(r, *other.mechanism, other.error_length);
  return fmt::format("; {} is {:.1f} times as fast as {} at n = {}, but {}", other.mechanism->name,
                     leader.time.seconds / other.time.seconds, leader.mechanism->name,
                     with_commas(length), trained_only_text(error, error_inputs(r, other, length)));
}

bool measured_at(const CompareRecord& r, std::string_view name, std::uint64_t length) {
  const auto time = shown_time(r.find(name, length));
  return time && time->measured;
}

// The last length at which the baseline was measured together with all that led at a shorter one,
// and with something; else the last at which anything but the baseline was; else nothing.
std::optional<std::uint64_t> telling_length(const CompareRecord& r) {
  std::optional<std::uint64_t> telling;
  std::optional<std::uint64_t> any;
  std::set<std::string_view> leaders;
  for (const std::uint64_t n : r.lengths) {
    const bool others = std::ranges::any_of(r.mechanisms, [&](const CompareMechanism& m) {
      return m.name != kBaseline && measured_at(r, m.name, n);
    });
    if (!others) continue;
    any = n;
    const auto here = [&](std::string_view name) { return measured_at(r, name, n); };
    if (!here(kBaseline) || !std::ranges::all_of(leaders, here)) continue;
    telling = n;
    leaders.insert(leader_at(r, n).mechanism->name);
  }
  return telling ? telling : any;
}

// What may replace exact attention, by what was measured at n.
std::string replacement_at(const CompareRecord& r, std::uint64_t n, const Leader& leader) {
  const auto baseline = shown_time(r.find(kBaseline, n));
  const std::string where = "on this machine ";
  if (!baseline || !baseline->measured) {
    return fmt::format(
        "{}nothing that can replace exact attention is clearly faster than {} at "
        "n = {}",
        where, leader.mechanism->name, with_commas(n));
  }
  const std::vector<Race> races = race(r, leader.mechanism->name);
  const bool wins =
      !is_baseline(leader) && leader.time.seconds < kClearlyFaster * baseline->seconds;
  if (!wins) {
    std::string text =
        fmt::format("{}exact {} is within 15 % of the fastest that can replace it up to n = {}",
                    where, kBaseline, with_commas(n));
    const Leader later = leader_at(r, r.lengths.back());
    if (later.mechanism != nullptr && !is_baseline(later) && r.lengths.back() > n) {
      const std::vector<Race> ahead = race(r, later.mechanism->name);
      const CompareCrossover c =
          ahead.empty() ? CompareCrossover{} : crossover_of(ahead, kClearlyFaster);
      if (c.length) {
        text += fmt::format("; {} is predicted to be clearly faster from n ≈ {}",
                            later.mechanism->name, text_of(*c.length));
      }
    }
    return text;
  }
  const CompareCrossover c = crossover_of(races, kClearlyFaster);
  const std::string gain =
      fmt::format("{} is {:.1f} times as fast at n = {}{}{}", leader.mechanism->name,
                  baseline->seconds / leader.time.seconds, with_commas(n),
                  races.back().length > n
                      ? fmt::format(" (predicted: {:.1f} times at {})", 1.0 / races.back().ratio,
                                    with_commas(races.back().length))
                      : "",
                  error_text(r, leader, n));
  const bool always = !c.length || *c.length <= static_cast<double>(r.lengths.front());
  if (always && races.back().ratio < 1.0 && r.lengths.size() > 1) {
    return fmt::format("{}{} is faster than exact {} at every length compared: {}", where,
                       leader.mechanism->name, kBaseline, gain);
  }
  // What is predicted of other lengths may not agree with what was measured at this one.
  if (always || *c.length > static_cast<double>(n)) return where + gain;
  return fmt::format(
      "{}exact {} is within 15 % of the fastest that can replace it up to n ≈ {}; beyond that {}",
      where, kBaseline, text_of(*c.length), gain);
}

// Of what was measured alone; what is predicted is called so.
std::string conclusion_of(const CompareRecord& r) {
  const std::optional<std::uint64_t> telling = telling_length(r);
  if (!telling) {
    const bool alone = std::ranges::any_of(
        r.lengths, [&](std::uint64_t n) { return measured_at(r, kBaseline, n); });
    return fmt::format("nothing was measured{}, so nothing follows for this machine",
                       alone ? fmt::format(" beside {}", kBaseline) : "");
  }
  const Leader leader = leader_at(r, *telling);
  if (leader.mechanism == nullptr) {
    return fmt::format("nothing that can replace exact attention was measured at n = {}",
                       with_commas(*telling));
  }
  return replacement_at(r, *telling, leader) + trained_only_at(r, *telling, leader);
}

}  // namespace

std::string with_commas(std::uint64_t value) {
  if (value < 1000) return fmt::format("{}", value);
  return fmt::format("{},{:03}", with_commas(value / 1000), value % 1000);
}

std::string inputs_text(const CompareSettings& s) {
  if (s.inputs == "random") return "random inputs";
  return s.random_tokens ? "the checkpoint's inputs, of random tokens" : "the checkpoint's inputs";
}

std::optional<std::uint64_t> error_length(const CompareRecord& r) {
  std::optional<std::uint64_t> best;
  std::size_t most = 0;
  for (const std::uint64_t n : r.lengths) {
    const auto known =
        static_cast<std::size_t>(std::ranges::count_if(r.points, [&](const ComparePoint& p) {
          return p.length == n && p.status == PointStatus::kOk && p.error && p.error->output;
        }));
    if (known == 0 || known < most) continue;
    best = n;
    most = known;
  }
  return best;
}

std::optional<ShownTime> shown_time(const ComparePoint* p) {
  if (p == nullptr || !p->time) return std::nullopt;
  if (p->status == PointStatus::kOk && p->time->measured)
    return ShownTime{*p->time->measured, true};
  const bool hopeless = p->status == PointStatus::kFailed || p->status == PointStatus::kRefused;
  if (hopeless || !p->time->predicted) return std::nullopt;
  return ShownTime{*p->time->predicted, false};
}

std::optional<double> fitted_exponent(const std::vector<std::pair<double, double>>& points) {
  constexpr std::size_t kPoints = 3;
  if (points.size() < 2) return std::nullopt;
  const std::size_t first = points.size() - std::min(points.size(), kPoints);
  double x = 0.0, y = 0.0, xx = 0.0, xy = 0.0;
  const auto count = static_cast<double>(points.size() - first);
  for (std::size_t i = first; i < points.size(); ++i) {
    const double a = std::log(points[i].first);
    const double b = std::log(points[i].second);
    x += a;
    y += b;
    xx += a * a;
    xy += a * b;
  }
  const double slope = (count * xy - x * y) / (count * xx - x * x);
  // Lengths that hardly differ say nothing.
  return kComparedExponent.contains(slope) ? std::optional(slope) : std::nullopt;
}

void summarize(CompareRecord& r) {
  std::ranges::sort(r.lengths);
  for (CompareMechanism& m : r.mechanisms) fit_mechanism(r, m);
  r.prediction = prediction_of(r);
  r.fusion = fusion_of(r);
  r.left_out.clear();
  for (const ComparePoint& p : r.points) {
    if (p.status == PointStatus::kSkipped) r.left_out.push_back({p.mechanism, p.length, p.reason});
  }
  r.conclusion = conclusion_of(r);
}

void check_alike(const CompareSettings& a, const CompareSettings& b) {
  require(
      a.phase == b.phase && a.bare == b.bare && a.layers == b.layers && a.d_model == b.d_model &&
          a.heads == b.heads && a.d_ff == b.d_ff && a.batch == b.batch && a.causal == b.causal &&
          a.threads == b.threads && a.inputs == b.inputs && a.seed == b.seed,
      "[compare] the two were not measured alike; need the same model, phase, threads, seed and "
      "inputs");
}

CompareRecord merge(const CompareRecord& base, const CompareRecord& more) {
  require(base.machine.cpu == more.machine.cpu &&
              base.machine.instruction_set == more.machine.instruction_set,
          "[compare] one was measured on {}, the other on {}; need one machine, or --against",
          base.machine.cpu, more.machine.cpu);
  check_alike(base.settings, more.settings);
  CompareRecord out = more;
  std::set<std::uint64_t> lengths(more.lengths.begin(), more.lengths.end());
  lengths.insert(base.lengths.begin(), base.lengths.end());
  out.lengths.assign(lengths.begin(), lengths.end());
  for (const CompareMechanism& m : base.mechanisms) {
    if (std::ranges::find(out.mechanisms, m.name, &CompareMechanism::name) ==
        out.mechanisms.end()) {
      out.mechanisms.push_back(m);
    }
  }
  require(out.lengths.size() <= kMostLengths && out.mechanisms.size() <= kMostMechanisms,
          "[compare] together they have {} lengths and {} mechanisms; need at most {} and {}",
          out.lengths.size(), out.mechanisms.size(), kMostLengths, kMostMechanisms);
  for (const ComparePoint& p : base.points) {
    const auto same = std::ranges::find_if(out.points, [&](const ComparePoint& q) {
      return q.mechanism == p.mechanism && q.length == p.length;
    });
    if (same == out.points.end()) {
      out.points.push_back(p);
    } else if (p.status == PointStatus::kOk && same->status != PointStatus::kOk) {
      *same = p;
    }
  }
  summarize(out);
  return out;
}

}  // namespace longspan
