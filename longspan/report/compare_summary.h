// What follows from the points of a comparison: exponents, crossovers, errors of the predictions,
// what fusing saves, and one sentence.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "longspan/report/compare_record.h"

namespace longspan {

// Fills what the points imply; everything else stays.
void summarize(CompareRecord& record);

// Throws Error unless what was measured under the one can stand beside what was under the other.
void check_alike(const CompareSettings& a, const CompareSettings& b);
// The points of both. Where both have one, `more` wins unless only the one of `base` was measured.
// Throws Error, "[compare] …", where they were not measured alike on the same machine.
CompareRecord merge(const CompareRecord& base, const CompareRecord& more);

// Seconds, measured or else predicted.
struct ShownTime {
  double seconds = 0.0;
  bool measured = false;
};
std::optional<ShownTime> shown_time(const ComparePoint* point);

// The length at which errors are compared: of those at which most mechanisms have one the longest.
std::optional<std::uint64_t> error_length(const CompareRecord& record);

// What errors were measured on, as the end of "on …".
std::string inputs_text(const CompareSettings& settings);

// a where value ∝ n^a over the last three of the pairs (n, value).
std::optional<double> fitted_exponent(const std::vector<std::pair<double, double>>& points);

// 3100 → "3,100"
std::string with_commas(std::uint64_t value);

}  // namespace longspan
