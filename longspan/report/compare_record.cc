#include "longspan/report/compare_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "longspan/base/error.h"

namespace longspan {

namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "longspan-compare";
constexpr std::uint64_t kVersion = 1;

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
json written(const T& value) {
  if constexpr (IsOptional<T>::value) {
    return value ? written(*value) : json(nullptr);
  } else if constexpr (IsVector<T>::value) {
    json array = json::array();
    for (const auto& item : value) array.push_back(written(item));
    return array;
  } else if constexpr (std::floating_point<T>) {
    return std::isfinite(value) ? json(value) : json(nullptr);
  } else if constexpr (std::integral<T> || std::same_as<T, std::string>) {
    return value;
  } else {
    json object = json::object();
    T::visit(value, [&](const char* name, const auto& field) { object[name] = written(field); });
    return object;
  }
}

// `path` names the value in messages: "points[3].time.measured".
struct Place {
  std::string_view where;
  std::string path;

  Place in(std::string_view name) const {
    return {where, path.empty() ? std::string(name) : fmt::format("{}.{}", path, name)};
  }
  Place at(std::size_t index) const { return {where, fmt::format("{}[{}]", path, index)}; }
  void expect(bool right, const json& value, std::string_view need) const {
    if (right) return;
    std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 37) + "...";
    throw Error(fmt::format("{}: '{}' is {}; need {}", where, path, text, need));
  }
};

template <class T>
void read(const Place& place, const json& value, T& field) {
  if constexpr (IsOptional<T>::value) {
    if (value.is_null()) return field.reset();
    read(place, value, field.emplace());
  } else if constexpr (IsVector<T>::value) {
    place.expect(value.is_array(), value, "a list");
    field.resize(value.size());
    for (std::size_t i = 0; i < value.size(); ++i) read(place.at(i), value[i], field[i]);
  } else if constexpr (std::same_as<T, bool>) {
    place.expect(value.is_boolean(), value, "true or false");
    field = value.get<bool>();
  } else if constexpr (std::integral<T>) {
    const bool counts =
        value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
    place.expect(counts, value, "a whole number from 0");
    field = value.get<T>();
  } else if constexpr (std::floating_point<T>) {
    place.expect(value.is_number() && std::isfinite(value.get<double>()), value, "a number");
    field = value.get<T>();
  } else if constexpr (std::same_as<T, std::string>) {
    place.expect(value.is_string(), value, "text");
    field = value.get<std::string>();
  } else {
    place.expect(value.is_object(), value, "an object");
    T::visit(field, [&](const char* name, auto& part) {
      if (const auto it = value.find(name); it != value.end()) read(place.in(name), *it, part);
    });
  }
}

// What no type says.
void check(std::string_view where, const CompareRecord& r) {
  constexpr std::array<std::string_view, 4> kStatuses = {"ok", "refused", "skipped", "failed"};
  require(!r.mechanisms.empty(), "{}: compares no mechanisms", where);
  for (const ComparePoint& p : r.points) {
    require(
        std::ranges::find(r.mechanisms, p.mechanism, &CompareMechanism::name) != r.mechanisms.end(),
        "{}: a point of '{}', which is not among the mechanisms", where, p.mechanism);
    require(std::ranges::find(r.lengths, p.length) != r.lengths.end(),
            "{}: a point of {} at length {}, which is not among the lengths", where, p.mechanism,
            p.length);
    require(std::ranges::find(kStatuses, p.status) != kStatuses.end(),
            "{}: the status of {} at {} is '{}'; need ok, refused, skipped or failed", where,
            p.mechanism, p.length, p.status);
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
  json object = written(record);
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
  read({where, ""}, value, record);
  check(where, record);
  return record;
}

}  // namespace longspan
