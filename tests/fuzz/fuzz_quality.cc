// Records of comparisons on a task: shown as a table, a page and CSV, and merged with another.
#include <nlohmann/json.hpp>

#include "longspan/io/json_file.h"
#include "longspan/report/quality_page.h"
#include "longspan/report/quality_summary.h"
#include "longspan/report/quality_table.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tree.h"

namespace longspan::fuzz {

namespace {

QualityRecord read_quality_record(std::string_view text) {
  return quality_record_from("[compare] record", parse_json("[json] record", text));
}

void use_quality(std::string_view text) {
  static const QualityRecord sound = read_quality_record(sound_files("quality").front());
  QualityRecord record = read_quality_record(text);
  summarize(record);
  quality_table(record);
  quality_csv(record);
  quality_page(record, &sound);
  quality_against(record, sound);
  // What was read can be written and read again.
  read_quality_record(json_text(to_json(record)));
  quality_table(merge(sound, record));
}

}  // namespace

int fuzz_quality(Bytes input) {
  static const std::vector<nlohmann::json> trees = sound_trees("quality");
  return outcome_of([&] {
    use_quality(edits(input) ? json_text(edited(trees, input)) : std::string(text_of(input)));
  });
}

}  // namespace longspan::fuzz
