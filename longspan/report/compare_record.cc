#include "longspan/report/compare_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "longspan/base/error.h"
#include "longspan/io/record_json.h"

namespace longspan {

namespace {

using nlohmann::json;

constexpr std::string_view kRecordFormat = "longspan-compare";
constexpr std::uint64_t kVersion = 1;

// What no type and no range says, part by part.
class RecordChecker {
 public:
  RecordChecker(std::string_view where, const CompareRecord& record)
      : top_{where, ""}, r_(record) {}

  void run() const {
    const CompareSettings& s = r_.settings;
    if (s.d_model % s.heads != 0) {
      refuse(top_.in("settings").in("heads"), "{} heads do not divide a width of {}", s.heads,
             s.d_model);
    }
    lengths();
    for (std::size_t i = 0; i < r_.mechanisms.size(); ++i) mechanism(i);
    std::set<std::pair<std::string_view, std::uint64_t>> seen;
    std::set<std::string_view> kinds;
    for (std::size_t i = 0; i < r_.points.size(); ++i) {
      const ComparePoint& p = r_.points[i];
      point(top_.in("points").at(i), p);
      if (!seen.emplace(p.mechanism, p.length).second) {
        refuse(top_.in("points").at(i), "is a second one of {} at length {}", p.mechanism,
               p.length);
      }
      if (!p.kinds) continue;
      for (const KindTime& k : *p.kinds) kinds.insert(k.kind);
      if (kinds.size() > kMostKinds) {
        refuse(top_.in("points").at(i).in("kinds"), "brings more than {} kinds of work",
               kMostKinds);
      }
    }
  }

 private:
  template <class... Args>
  [[noreturn]] static void refuse(const RecordPlace& place, fmt::format_string<Args...> text,
                                  Args&&... args) {
    place.refuse(fmt::format(text, std::forward<Args>(args)...));
  }
  static void count(const RecordPlace& place, std::size_t size, std::size_t most) {
    if (size == 0 || size > most) refuse(place, "has {} items; need 1 to {}", size, most);
  }

  void lengths() const {
    count(top_.in("lengths"), r_.lengths.size(), kMostLengths);
    count(top_.in("mechanisms"), r_.mechanisms.size(), kMostMechanisms);
    const std::set<std::uint64_t> all(r_.lengths.begin(), r_.lengths.end());
    if (all.size() < r_.lengths.size()) refuse(top_.in("lengths"), "has a length twice");
  }

  void mechanism(std::size_t index) const {
    const CompareMechanism& m = r_.mechanisms[index];
    const RecordPlace place = top_.in("mechanisms").at(index);
    if (&*std::ranges::find(r_.mechanisms, m.name, &CompareMechanism::name) != &m) {
      refuse(place.in("name"), "is '{}' a second time", m.name);
    }
    if (!m.pattern) return;
    const auto& [rows, columns, cells] = *m.pattern;
    bool whole = cells.size() == rows;
    for (const auto& row : cells) whole = whole && row.size() == columns;
    if (!whole) refuse(place.in("pattern"), "is not {}×{}", rows, columns);
    if (std::max(rows, columns) > kMostCells) {
      refuse(place.in("pattern"), "is {}×{}; need at most {}×{}", rows, columns, kMostCells,
             kMostCells);
    }
  }

  void point(const RecordPlace& place, const ComparePoint& p) const {
    if (std::ranges::find(r_.mechanisms, p.mechanism, &CompareMechanism::name) ==
        r_.mechanisms.end()) {
      refuse(place, "is of '{}', which is not among the mechanisms", p.mechanism);
    }
    if (std::ranges::find(r_.lengths, p.length) == r_.lengths.end()) {
      refuse(place, "is of {} at length {}, which is not among the lengths", p.mechanism, p.length);
    }
    const bool measured = p.time && p.time->measured;
    if (p.status == PointStatus::kOk && !measured) refuse(place, "is ok but has no measured time");
    if (!p.kinds) return;
    if (!measured) refuse(place.in("kinds"), "are of a pass that was not measured");
    for (std::size_t i = 0; i < p.kinds->size(); ++i) {
      const std::string& bound = (*p.kinds)[i].bound;
      if (bound != "compute" && bound != "memory") {
        refuse(place.in("kinds").at(i).in("bound"), "is '{}'; need compute or memory", bound);
      }
    }
  }

  static constexpr std::uint64_t kMostCells = 256;
  static constexpr std::size_t kMostKinds = 64;

  RecordPlace top_;
  const CompareRecord& r_;
};

// Earlier versions called it the task.
json with_phase(json value) {
  json& settings = value.at("settings");
  if (settings.is_object() && settings.contains("task")) {
    settings.emplace("phase", settings.at("task"));
  }
  return value;
}

}  // namespace

const ComparePoint* CompareRecord::find(std::string_view mechanism, std::uint64_t length) const {
  const auto it = std::ranges::find_if(points, [&](const ComparePoint& p) {
    return p.mechanism == mechanism && p.length == length;
  });
  return it == points.end() ? nullptr : &*it;
}

json to_json(const CompareRecord& record) {
  json object = record_to_json(record);
  object["format"] = kRecordFormat;
  object["version"] = kVersion;
  return object;
}

CompareRecord compare_record_from(std::string_view where, const json& value) {
  require(value.is_object() && value.value("format", json()) == kRecordFormat,
          "{}: is not the record of a comparison", where);
  require(value.value("version", json()) == kVersion,
          "{}: is version {} of the record; this longspan reads version {}", where,
          value.value("version", json()).dump(), kVersion);
  for (const char* needed : {"lengths", "mechanisms", "points", "settings", "machine"}) {
    require(value.contains(needed), "{}: has no '{}'", where, needed);
  }
  CompareRecord record;
  read_record({where, ""}, with_phase(value), record);
  RecordChecker(where, record).run();
  return record;
}

}  // namespace longspan
