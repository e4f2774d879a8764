// Presets have as many parameters as is published.
#include "longspan/models/presets.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "longspan/base/error.h"
#include "longspan/models/model.h"

namespace longspan {
namespace presets_test {

TEST(Presets, HaveTheirPublishedParameters) {
  // Of models with their output layer; longspan/cost counts encoders without.
  const std::map<std::string_view, std::size_t> published = {
      {"gpt2", 124439808},        {"gpt2-medium", 354823168},  {"gpt2-large", 774030080},
      {"gpt2-xl", 1557611200},    {"gpt3-175b", 174604259328}, {"llama-7b", 6738415616},
      {"llama-2-7b", 6738415616}, {"llama-2-70b", 68976648192}};
  for (const auto& [name, count] : published) {
    EXPECT_EQ(Model(find_preset(name).config()).parameters().count(), count) << name;
  }
}

TEST(Presets, CanBeBuiltAndHaveASource) {
  std::set<std::string_view> names;
  for (const Preset& preset : presets()) {
    EXPECT_TRUE(names.insert(preset.name).second) << preset.name;
    const ModelConfig config = preset.config();
    EXPECT_NO_THROW(Model{config}) << preset.name;
    EXPECT_FALSE(preset.summary.empty());
    EXPECT_FALSE(preset.source.empty());
    EXPECT_LE(preset.length, config.max_length) << preset.name;
    EXPECT_TRUE(preset.output_layer || config.head == HeadKind::kClassifier) << preset.name;
  }
}

TEST(Presets, SuggestTheNearestName) {
  try {
    find_preset("bert-bse");
    FAIL() << "no such preset";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean 'bert-base'?"), std::string::npos)
        << e.what();
  }
}

}  // namespace presets_test
}  // namespace longspan
