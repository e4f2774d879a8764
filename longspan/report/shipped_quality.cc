#include "longspan/report/shipped_quality.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "longspan/io/json_file.h"
#include "longspan/report/quality_summary.h"

namespace longspan {

namespace {

struct ShippedFile {
  const char* name;
  const char* text;
};
constexpr ShippedFile kShipped[] = {
#include <quality_json.inc>
};

}  // namespace

std::vector<QualityRecord> shipped_quality() {
  std::vector<QualityRecord> all;
  for (const ShippedFile& file : kShipped) {
    const std::string where = fmt::format("[quality] {}", file.name);
    all.push_back(quality_record_from(where, parse_json(where, file.text)));
    summarize(all.back());
  }
  return all;
}

}  // namespace longspan
