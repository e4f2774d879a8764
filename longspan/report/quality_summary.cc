#include "longspan/report/quality_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "longspan/base/error.h"
#include "longspan/base/number.h"
#include "longspan/io/record_json.h"
#include "longspan/report/html.h"

namespace longspan {

namespace {

bool better(const QualitySettings& s, double a, double b) { return s.higher ? a > b : a < b; }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

Standing standing_of(const QualitySettings& s, const std::vector<const QualityTrial*>& trials) {
  Standing standing{.mechanism = trials.front()->mechanism, .trials = trials.size()};
  std::vector<double> seconds;
  for (const QualityTrial* t : trials) {
    if (t->status != PointStatus::kOk) {
      if (standing.reason.empty()) standing.reason = t->reason;
      standing.failed += t->status == PointStatus::kFailed ? 1 : 0;
      continue;
    }
    const double q = *t->quality;
    const bool first = standing.trained++ == 0;
    standing.mean += q;
    if (first || better(s, q, standing.best)) standing.best = q;
    if (first || better(s, standing.worst, q)) standing.worst = q;
    seconds.push_back(*t->step_seconds);
    standing.memory = *t->memory;
    standing.state = t->state;
  }
  if (standing.trained > 0) {
    standing.mean /= static_cast<double>(standing.trained);
    standing.step_seconds = median(seconds);
  }
  return standing;
}

// Whether there are several, and people see one number.
bool all_tie(const QualitySettings& s, const std::vector<Standing>& all) {
  const std::string first = quality_text(s, all.front().mean);
  const auto trained = [](const Standing& standing) { return standing.trained > 0; };
  return std::ranges::count_if(all, trained) > 1 &&
         std::ranges::all_of(all, [&](const Standing& standing) {
           return !trained(standing) || quality_text(s, standing.mean) == first;
         });
}

// "flash learns recall best here: accuracy 99.00 % after 300 steps, 2 seeds"
std::string opening_of(const QualityRecord& r, const std::vector<Standing>& all) {
  const QualitySettings& s = r.settings;
  const Standing& best = all.front();
  const std::string quality = quality_text(s, best.mean);
  const std::optional<double> guess = guess_of(r);
  if (guess && !better(s, best.mean, *guess)) {
    return fmt::format(
        "nothing learns {} better than guessing here: {} {} at best after {} steps, guessing {}",
        s.task, s.metric, quality, s.steps, quality_text(s, *guess));
  }
  const std::string beside =
      guess ? fmt::format("; guessing reaches {}", quality_text(s, *guess)) : std::string();
  const std::string who = all_tie(s, all)
                              ? fmt::format("all learn {} alike here", s.task)
                              : fmt::format("{} learns {} best here", best.mechanism, s.task);
  return fmt::format("{}: {} {} after {} steps, {}{}", who, s.metric, quality, s.steps,
                     counted(best.trained, "seed"), beside);
}

std::string conclusion_of(const QualityRecord& r) {
  const std::vector<Standing> all = standings(r);
  if (all.empty() || all.front().trained == 0) return "nothing was trained, so nothing follows";
  const Standing& best = all.front();
  std::string text = opening_of(r, all);
  if (best.failed > 0) text += fmt::format(", while {} failed", counted(best.failed, "other"));
  const Standing* fastest = &best;
  std::vector<std::string> alike;
  for (const Standing& standing : all) {
    if (&standing == &best || !standing.as_good) continue;
    alike.push_back(standing.mechanism);
    if (standing.step_seconds < fastest->step_seconds) fastest = &standing;
  }
  if (!alike.empty()) {
    text += fmt::format("; {} {} within the spread of its seeds", fmt::join(alike, ", "),
                        alike.size() == 1 ? "is" : "are");
    if (fastest != &best) {
      text += fmt::format(", and of them all {} is the fastest, {} a step", fastest->mechanism,
                          seconds_text(fastest->step_seconds));
    }
  }
  if (best.trained == 1) text += "; one seed says nothing about the spread";
  return text;
}

}  // namespace

std::vector<Standing> standings(const QualityRecord& record) {
  std::vector<std::vector<const QualityTrial*>> by_mechanism;
  for (const QualityTrial& t : record.trials) {
    const auto same = std::ranges::find_if(
        by_mechanism, [&](const auto& ts) { return ts.front()->mechanism == t.mechanism; });
    (same == by_mechanism.end() ? by_mechanism.emplace_back() : *same).push_back(&t);
  }
  std::vector<Standing> all;
  for (const auto& trials : by_mechanism) all.push_back(standing_of(record.settings, trials));
  std::ranges::stable_sort(all, [&](const Standing& a, const Standing& b) {
    if ((a.trained > 0) != (b.trained > 0)) return a.trained > 0;
    return a.trained > 0 && better(record.settings, a.mean, b.mean);
  });
  for (Standing& standing : all) {
    standing.on_front =
        standing.trained > 0 && std::ranges::none_of(all, [&](const Standing& other) {
          return other.trained > 0 && !better(record.settings, standing.mean, other.mean) &&
                 other.step_seconds < standing.step_seconds;
        });
    standing.as_good = standing.trained > 0 && standing.failed == 0 &&
                       !better(record.settings, all.front().worst, standing.best);
  }
  return all;
}

std::string quality_text(const QualitySettings& settings, double quality) {
  return settings.share ? fmt::format("{:.2f} %", 100.0 * quality) : fmt::format("{:.4f}", quality);
}

std::optional<double> guess_of(const QualityRecord& record) {
  for (const QualityTrial& t : record.trials) {
    if (t.guess) return t.guess;
  }
  return std::nullopt;
}

std::string seeds_text(const std::vector<Standing>& all) {
  std::size_t least = 0;
  std::size_t most = 0;
  for (const Standing& standing : all) {
    if (standing.trained == 0) continue;
    least = least == 0 ? standing.trained : std::min(least, standing.trained);
    most = std::max(most, standing.trained);
  }
  return least == most ? counted(most, "seed") : fmt::format("{} to {} seeds", least, most);
}

void summarize(QualityRecord& record) { record.conclusion = conclusion_of(record); }

namespace {
bool is_of_data(const QualitySettings& s) {
  const auto data = s.options.find("data");
  return data != s.options.end() && !data->second.empty();
}
}  // namespace

bool trained_alike(const QualitySettings& a, const QualitySettings& b) {
  return unlike_text(a, b).empty();
}

std::string unlike_text(const QualitySettings& a, const QualitySettings& b) {
  QualitySettings other = b;
  other.budget_seconds = a.budget_seconds;
  other.length = a.length;  // follows from the options, and older records do not say it
  if (!a.data_checksum || !b.data_checksum) {
    other.data_checksum = a.data_checksum;  // likewise
  } else if (a.options.contains("data") && b.options.contains("data")) {
    other.options.find("data")->second = a.options.find("data")->second;  // wherever they are
  }
  QualitySettings own = a;
  if (is_of_data(a) && is_of_data(b)) {
    // Records of earlier versions have what draws examples beside the data, too.
    std::erase_if(own.options, [&](const auto& o) { return !b.options.contains(o.first); });
    std::erase_if(other.options, [&](const auto& o) { return !a.options.contains(o.first); });
  }
  const nlohmann::json here = record_to_json(own).flatten();
  const nlohmann::json there = record_to_json(other).flatten();
  std::vector<std::string> unlike;
  const auto text = [](const nlohmann::json& fields, const std::string& name) {
    const auto field = fields.find(name);
    if (field == fields.end() || field->is_null()) return std::string("nothing");
    return field->is_string() ? printable(field->get<std::string>()) : field->dump();
  };
  const auto compare = [&](const std::string& name) {
    if (here.value(name, nlohmann::json()) == there.value(name, nlohmann::json())) return;
    unlike.push_back(
        fmt::format("{} {} and {}", name.substr(1), text(here, name), text(there, name)));
  };
  for (const auto& field : here.items()) compare(field.key());
  for (const auto& field : there.items()) {
    if (!here.contains(field.key())) compare(field.key());
  }
  return fmt::format("{}", fmt::join(unlike, ", "));
}

void check_alike(const QualitySettings& a, const QualitySettings& b) {
  const std::string unlike = unlike_text(a, b);
  require(unlike.empty(), "[compare] the two were not trained alike: {}; need the same", unlike);
}

QualityRecord merge(const QualityRecord& known, const QualityRecord& more) {
  check_alike(known.settings, more.settings);
  QualityRecord all = more;
  if (!all.settings.length) all.settings.length = known.settings.length;
  all.trials = known.trials;
  for (const QualityTrial& t : more.trials) {
    const auto same = std::ranges::find_if(all.trials, [&](const QualityTrial& k) {
      return k.mechanism == t.mechanism && k.seed == t.seed;
    });
    if (same == all.trials.end()) {
      all.trials.push_back(t);
    } else if (same->status != PointStatus::kOk) {
      *same = t;
    }
  }
  summarize(all);
  return all;
}

}  // namespace longspan
