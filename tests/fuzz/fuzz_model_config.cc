// Configs of models as our own checkpoints have them.
#include "longspan/io/config_json.h"
#include "longspan/io/json_file.h"
#include "longspan/testing/reference_cases.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tree.h"
#include "tests/fuzz/use_model.h"

namespace longspan::fuzz {

namespace {

std::vector<nlohmann::json> config_trees() {
  std::vector<nlohmann::json> trees;
  for (const auto& cases :
       {testing::model_cases(), testing::expert_cases(), testing::staged_cases(),
        testing::perceptron_cases(), testing::pair_cases()}) {
    for (const testing::ModelCase& c : cases) trees.push_back(config_to_json(c.config));
  }
  return trees;
}

}  // namespace

int fuzz_model_config(Bytes input) {
  static const std::vector<nlohmann::json> trees = config_trees();
  return outcome_of([&] {
    const std::string text =
        edits(input) ? json_text(edited(trees, input)) : std::string(text_of(input));
    use_model(config_from_json<ModelConfig>("model", parse_json("[json] config", text)));
  });
}

}  // namespace longspan::fuzz
