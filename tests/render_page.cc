// render_page RECORD.json PAGE.html [AGAINST.json]: the page of a comparison, of attentions or of
// what was trained with them, for the tests in a browser.
#include <fmt/core.h>

#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "longspan/io/json_file.h"
#include "longspan/report/page.h"
#include "longspan/report/quality_page.h"
#include "longspan/report/quality_summary.h"

namespace {

using namespace longspan;

QualityRecord quality_of(const char* path) {
  QualityRecord record = quality_record_from(path, read_json(path));
  summarize(record);
  return record;
}

std::string page_of(const char* path, const char* against) {
  const nlohmann::json json = read_json(path);
  if (!is_quality_record(json)) return comparison_page(compare_record_from(path, json));
  std::optional<QualityRecord> there;
  if (against != nullptr) there = quality_of(against);
  return quality_page(quality_of(path), there ? &*there : nullptr);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3 && argc != 4) {
    fmt::print(stderr, "usage: render_page RECORD.json PAGE.html [AGAINST.json]\n");
    return 2;
  }
  std::ofstream out(argv[2], std::ios::binary);
  out << page_of(argv[1], argc == 4 ? argv[3] : nullptr);
  return out.flush() ? 0 : 1;
} catch (const std::exception& error) {
  fmt::print(stderr, "render_page: {}\n", error.what());
  return 1;
}
