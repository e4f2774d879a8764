// The parts of a comparison's record that are not measured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "longspan/compare/compare_plan.h"
#include "longspan/report/compare_record.h"

namespace longspan::cli {

RecordHead record_head();

// Machine, versions, mechanisms, and every point as it is predicted.
CompareRecord make_record(const ComparePlan& plan, const PlanRequest& request,
                          const CompareRoofline& roofline);

// "flash,performer:features=64,norms=fixed" → flash; performer:features=64,norms=fixed. Empty:
// every mechanism. Throws Error where one is not known.
std::vector<std::string> attention_list(const std::string& text);
// "256,1024"
std::vector<std::uint64_t> length_list(const std::string& text);

// Throws Error, in one sentence, for a step of more FLOPs than counters of 64 bits hold.
void check_countable(std::string_view who, const CompareSettings& settings, std::uint64_t length);

}  // namespace longspan::cli
