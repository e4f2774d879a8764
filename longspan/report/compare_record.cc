#include "longspan/report/compare_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "longspan/base/error.h"
#include "longspan/report/record_json.h"

namespace longspan {

namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "longspan-compare";
constexpr std::uint64_t kVersion = 1;

// What no type says.
void check(std::string_view where, const CompareRecord& r) {
  require(!r.mechanisms.empty(), "{}: compares no mechanisms", where);
  for (const ComparePoint& p : r.points) {
    require(
        std::ranges::find(r.mechanisms, p.mechanism, &CompareMechanism::name) != r.mechanisms.end(),
        "{}: a point of '{}', which is not among the mechanisms", where, p.mechanism);
    require(std::ranges::find(r.lengths, p.length) != r.lengths.end(),
            "{}: a point of {} at length {}, which is not among the lengths", where, p.mechanism,
            p.length);
  }
  for (const CompareMechanism& m : r.mechanisms) {
    if (!m.pattern) continue;
    const bool whole = m.pattern->cells.size() == m.pattern->rows &&
                       std::ranges::all_of(m.pattern->cells, [&](const auto& row) {
                         return row.size() == m.pattern->columns;
                       });
    require(whole, "{}: the pattern of {} is not {}×{}", where, m.name, m.pattern->rows,
            m.pattern->columns);
  }
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
  object["format"] = kFormat;
  object["version"] = kVersion;
  return object;
}

CompareRecord compare_record_from(std::string_view where, const json& value) {
  require(value.is_object() && value.value("format", json()) == kFormat,
          "{}: is not the record of a comparison", where);
  require(value.value("version", json()) == kVersion,
          "{}: is version {} of the record; this longspan reads version {}", where,
          value.value("version", json()).dump(), kVersion);
  for (const char* needed : {"lengths", "mechanisms", "points", "settings", "machine"}) {
    require(value.contains(needed), "{}: has no '{}'", where, needed);
  }
  CompareRecord record;
  read_record({where, ""}, value, record);
  check(where, record);
  return record;
}

}  // namespace longspan
