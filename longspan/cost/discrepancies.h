// Where the paper's numbers disagree with their own parts, its text with its formulas, or both with
// what has to be computed. A report that shows two views explains their difference with these.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace longspan {

enum class Severity : std::uint8_t {
  kHigh,    // changes totals or a claim
  kMedium,  // changes totals slightly, or in special cases
  kLow,     // notation
};
std::string_view name_of(Severity severity);  // "high", "medium", "low"

struct Discrepancy {
  int number = 0;       // 1 for D1
  std::string_view id;  // "D1"
  Severity severity = Severity::kLow;
  std::string_view paper;  // what the paper says
  std::string_view meant;  // what its parts give, or what has to be computed
  // Which views differ from `printed` for this reason.
  bool in_corrected = false;
  bool in_executed = false;
};

std::span<const Discrepancy> discrepancies();  // D1 first
const Discrepancy& discrepancy(int number);    // throws Error unless 1 ≤ number ≤ 20

}  // namespace longspan
