#include "longspan/report/quality_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "longspan/base/error.h"
#include "longspan/io/record_json.h"

namespace longspan {

namespace {

using nlohmann::json;

constexpr std::string_view kQualityFormat = "longspan-quality";
constexpr std::uint64_t kQualityVersion = 1;

bool is_share(double value) { return value >= 0.0 && value <= 1.0; }

// What no type and no range says.
void check_trials(const RecordPlace& top, const QualityRecord& record) {
  const RecordPlace all = top.in("trials");
  if (record.trials.empty() || record.trials.size() > kMostTrials) {
    all.refuse(fmt::format("has {} items; need 1 to {}", record.trials.size(), kMostTrials));
  }
  std::set<std::pair<std::string_view, std::uint64_t>> seen;
  std::set<std::string_view> mechanisms;
  for (std::size_t i = 0; i < record.trials.size(); ++i) {
    const QualityTrial& t = record.trials[i];
    if (t.mechanism.empty()) all.at(i).in("mechanism").refuse("is empty; need a name");
    mechanisms.insert(t.mechanism);
    if (!seen.emplace(t.mechanism, t.seed).second) {
      all.at(i).refuse(fmt::format("is a second one of {} from seed {}", t.mechanism, t.seed));
    }
    const bool whole = t.quality && t.step_seconds && t.memory;
    if (t.status == PointStatus::kOk && !whole) {
      all.at(i).refuse("is ok but has no quality, step_seconds or memory");
    }
    if (record.settings.share && t.quality && !is_share(*t.quality)) {
      all.at(i).in("quality").refuse(fmt::format("is {}; need a share from 0 to 1", *t.quality));
    }
    if (t.curve.size() > kMostCurve) {
      all.at(i).in("curve").refuse(
          fmt::format("has {} items; need at most {}", t.curve.size(), kMostCurve));
    }
    for (std::size_t j = 1; j < t.curve.size(); ++j) {
      if (t.curve[j].step <= t.curve[j - 1].step) {
        all.at(i).in("curve").at(j).in("step").refuse("is not behind the one before it");
      }
    }
  }
  if (mechanisms.size() > kMostMechanisms) {
    all.refuse(
        fmt::format("are of {} mechanisms; need at most {}", mechanisms.size(), kMostMechanisms));
  }
}

// What would be invented where it is missing; what later versions added may be.
void check_fields(const RecordPlace& place, const json& value,
                  std::initializer_list<const char*> needed) {
  if (!value.is_object()) return;  // which is refused as it is read
  for (const char* name : needed) {
    if (!value.contains(name)) place.in(name).refuse("is missing");
  }
}

void check_present(const RecordPlace& top, const json& record) {
  check_fields(top.in("settings"), record["settings"],
               {"task", "options", "layers", "d_model", "heads", "positions", "before", "steps",
                "batch", "learning_rate", "metric", "higher", "share", "threads"});
  const json& trials = record["trials"];
  if (!trials.is_array()) return;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const RecordPlace place = top.in("trials").at(i);
    check_fields(place, trials[i], {"mechanism", "seed", "status"});
    const json curve = trials[i].is_object() ? trials[i].value("curve", json()) : json();
    for (std::size_t j = 0; curve.is_array() && j < curve.size(); ++j) {
      check_fields(place.in("curve").at(j), curve[j], {"step", "loss", "quality"});
    }
  }
}

}  // namespace

const QualityTrial* QualityRecord::find(std::string_view mechanism, std::uint64_t seed) const {
  const auto it = std::ranges::find_if(
      trials, [&](const QualityTrial& t) { return t.mechanism == mechanism && t.seed == seed; });
  return it == trials.end() ? nullptr : &*it;
}

bool is_quality_record(const json& value) {
  return value.is_object() && value.value("format", json()) == kQualityFormat;
}

json to_json(const QualityRecord& record) {
  json object = record_to_json(record);
  object["format"] = kQualityFormat;
  object["version"] = kQualityVersion;
  return object;
}

QualityRecord quality_record_from(std::string_view where, const json& value) {
  require(is_quality_record(value), "{}: is not the record of a comparison on a task", where);
  require(value.value("version", json()) == kQualityVersion,
          "{}: is version {} of the record; this longspan reads version {}", where,
          value.value("version", json()).dump(), kQualityVersion);
  for (const char* needed : {"settings", "trials", "machine"}) {
    require(value.contains(needed), "{}: has no '{}'", where, needed);
  }
  check_present({where, ""}, value);
  QualityRecord record;
  read_record({where, ""}, value, record);
  check_trials({where, ""}, record);
  return record;
}

}  // namespace longspan
