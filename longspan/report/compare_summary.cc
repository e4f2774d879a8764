#include "longspan/report/compare_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "longspan/base/error.h"

namespace longspan {

namespace {

constexpr std::string_view kBaseline = "flash";
constexpr double kClearlyFaster = 1.0 / 1.15;  // of the baseline's time; closer is a tie

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t n = values.size();
  return 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

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

// The length from which the ratio stays below `limit`.
CompareCrossover crossover_of(const std::vector<Race>& races, double limit) {
  std::size_t first = races.size();
  while (first > 0 && races[first - 1].ratio < limit) --first;
  if (first == races.size()) {
    return {std::nullopt, races.back().measured,
            fmt::format("not faster than {} up to n = {}", kBaseline,
                        with_commas(races.back().length))};
  }
  if (first == 0) {
    return {static_cast<double>(races[0].length), races[0].measured,
            fmt::format("faster than {} at every length compared", kBaseline)};
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
          fmt::format("faster than {} from n ≈ {}{}", kBaseline, text_of(length),
                      measured ? "" : " (predicted)")};
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
    const auto held = p.memory->resident ? p.memory->resident : p.memory->measured;
    if (held && *held > 0.0) memory.push_back(std::abs(*p.memory->predicted / *held - 1.0));
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
};

bool is_baseline(const Leader& l) { return l.mechanism->name == kBaseline; }

// Of the output, at the longest length where it is known.
std::optional<double> error_of(const CompareRecord& r, const CompareMechanism& m) {
  if (m.exact) return 0.0;
  for (std::size_t i = r.lengths.size(); i-- > 0;) {
    const ComparePoint* p = r.find(m.name, r.lengths[i]);
    if (p != nullptr && p->error && p->error->output) return p->error->output;
  }
  return std::nullopt;
}

// Of the fastest of a length, those that nothing clearly beats, the one that errs least: which of
// them is first changes from run to run. They are those that were measured, or else all.
Leader leader_at(const CompareRecord& r, std::uint64_t length) {
  std::vector<Leader> all;
  bool measured = false;
  for (const CompareMechanism& m : r.mechanisms) {
    const auto time = shown_time(r.find(m.name, length));
    if (!time) continue;
    all.push_back({&m, *time});
    measured = measured || time->measured;
  }
  std::erase_if(all, [&](const Leader& l) { return measured && !l.time.measured; });
  if (all.empty()) return {};
  auto sooner = [](const Leader& x, const Leader& y) { return x.time.seconds < y.time.seconds; };
  const double best = std::ranges::min(all, sooner).time.seconds;
  std::erase_if(all, [&](const Leader& l) { return kClearlyFaster * l.time.seconds > best; });
  // Where the baseline is not among them, all that is said of the leader is said of its lead.
  const bool beaten = std::ranges::none_of(all, &is_baseline);
  const auto baseline = shown_time(r.find(kBaseline, length));
  std::erase_if(all, [&](const Leader& l) {
    return beaten && baseline && l.time.seconds >= kClearlyFaster * baseline->seconds;
  });
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  return std::ranges::min(all, [&](const Leader& x, const Leader& y) {
    const double ex = error_of(r, *x.mechanism).value_or(kUnknown);
    const double ey = error_of(r, *y.mechanism).value_or(kUnknown);
    return ex != ey ? ex < ey : sooner(x, y);
  });
}

std::string error_text(const CompareRecord& r, const CompareMechanism& m) {
  const auto error = error_of(r, m);
  if (m.exact || !error) return "";
  return fmt::format(", with a relative error of {:.2g} on {} inputs", *error,
                     r.settings.inputs == "random" ? "random" : "the checkpoint's");
}

// The last length of which something was measured, else the last.
std::uint64_t telling_length(const CompareRecord& r) {
  for (std::size_t i = r.lengths.size(); i-- > 0;) {
    for (const CompareMechanism& m : r.mechanisms) {
      const auto time = shown_time(r.find(m.name, r.lengths[i]));
      const auto baseline = shown_time(r.find(kBaseline, r.lengths[i]));
      if (time && time->measured && (!baseline || baseline->measured)) return r.lengths[i];
    }
  }
  return r.lengths.empty() ? 0 : r.lengths.back();
}

std::string conclusion_of(const CompareRecord& r) {
  const std::uint64_t n = telling_length(r);
  const Leader leader = leader_at(r, n);
  if (leader.mechanism == nullptr) return "nothing was measured";
  const auto baseline = shown_time(r.find(kBaseline, n));
  const std::string where = "on this machine ";
  if (!baseline) {
    return fmt::format("{}nothing is clearly faster than {} at n = {}", where,
                       leader.mechanism->name, with_commas(n));
  }
  const std::vector<Race> races = race(r, leader.mechanism->name);
  const bool wins =
      !is_baseline(leader) && leader.time.seconds < kClearlyFaster * baseline->seconds;
  if (!wins) {
    std::string text = fmt::format("{}exact {} is within 15 % of the fastest up to n = {}", where,
                                   kBaseline, with_commas(n));
    const Leader later = leader_at(r, r.lengths.back());
    if (later.mechanism != nullptr && !is_baseline(later) && r.lengths.back() > n) {
      const CompareCrossover c = crossover_of(race(r, later.mechanism->name), kClearlyFaster);
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
                  error_text(r, *leader.mechanism));
  if (!c.length || *c.length <= static_cast<double>(r.lengths.front())) {
    return fmt::format("{}{} is faster than exact {} at every length compared: {}", where,
                       leader.mechanism->name, kBaseline, gain);
  }
  return fmt::format("{}exact {} is within 15 % of the fastest up to n ≈ {}; beyond that {}", where,
                     kBaseline, text_of(*c.length), gain);
}

}  // namespace

std::string with_commas(std::uint64_t value) {
  if (value < 1000) return fmt::format("{}", value);
  return fmt::format("{},{:03}", with_commas(value / 1000), value % 1000);
}

std::optional<ShownTime> shown_time(const ComparePoint* p) {
  if (p == nullptr || !p->time) return std::nullopt;
  if (p->status == PointStatus::kOk && p->time->measured)
    return ShownTime{*p->time->measured, true};
  if (p->status == PointStatus::kFailed || !p->time->predicted) return std::nullopt;
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
  return (count * xy - x * y) / (count * xx - x * x);
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

CompareRecord merge(const CompareRecord& base, const CompareRecord& more) {
  const CompareSettings& a = base.settings;
  const CompareSettings& b = more.settings;
  require(base.machine.cpu == more.machine.cpu &&
              base.machine.instruction_set == more.machine.instruction_set,
          "[compare] one was measured on {}, the other on {}; need one machine, or --against",
          base.machine.cpu, more.machine.cpu);
  require(a.task == b.task && a.bare == b.bare && a.layers == b.layers && a.d_model == b.d_model &&
              a.heads == b.heads && a.d_ff == b.d_ff && a.batch == b.batch &&
              a.causal == b.causal && a.threads == b.threads && a.inputs == b.inputs,
          "[compare] the two were not measured alike; need the same model, task, threads and "
          "inputs");
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
