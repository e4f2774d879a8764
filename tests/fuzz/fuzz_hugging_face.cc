// The config.json of models from elsewhere, and where their weights would go.
#include "longspan/io/json_file.h"
#include "longspan/models/pretrained.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tree.h"
#include "tests/fuzz/use_model.h"

namespace longspan::fuzz {

int fuzz_hugging_face(Bytes input) {
  static const std::vector<nlohmann::json> trees = sound_trees("hugging_face");
  return outcome_of([&] {
    const std::string text =
        edits(input) ? json_text(edited(trees, input)) : std::string(text_of(input));
    const nlohmann::json config = parse_json("[json] config.json", text);
    const ModelConfig model = config_from_hugging_face(config);
    use_model(model);
    placements(config);
  });
}

}  // namespace longspan::fuzz
