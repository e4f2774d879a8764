// Records of comparisons, which people send to one another: shown as text, plot, page and CSV, and
// set beside and merged with another.
#include <nlohmann/json.hpp>

#include "longspan/io/json_file.h"
#include "longspan/report/compare_summary.h"
#include "longspan/report/compare_text.h"
#include "longspan/report/page.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tree.h"

namespace longspan::fuzz {

namespace {

CompareRecord read_compare_record(std::string_view text) {
  return compare_record_from("[compare] record", parse_json("[json] record", text));
}

const CompareRecord& sound_record() {
  static const CompareRecord record = read_compare_record(sound_files("record").front());
  return record;
}

void use_record(std::string_view text) {
  CompareRecord record = read_compare_record(text);
  summarize(record);
  compare_text(record);
  compare_csv(record);
  comparison_page(record);
  compare_against(record, sound_record());
  compare_against(sound_record(), record);
  // What was read can be written and read again.
  read_compare_record(json_text(to_json(record)));
  CompareRecord both = merge(sound_record(), record);
  summarize(both);
  compare_text(both);
}

}  // namespace

int fuzz_record(Bytes input) {
  static const std::vector<nlohmann::json> trees = sound_trees("record");
  return outcome_of([&] {
    use_record(edits(input) ? json_text(edited(trees, input)) : std::string(text_of(input)));
  });
}

}  // namespace longspan::fuzz
