// Which layers and embeddings a rule without a backward pass refuses to compare two passes of, in
// which sentence; and that it learns in all others.
#include <gtest/gtest.h>

#include <algorithm>

#include "longspan/learning/rule.h"
#include "longspan/models/model.h"
#include "longspan/testing/reference_cases.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace compared_layers_test {

using testing::BatchData;
using testing::message_of;

ModelConfig decoder() {
  ModelConfig c;
  c.layers = 2;
  c.d_model = 12;
  c.heads = 2;
  c.vocab = 11;
  c.max_length = 8;
  return c;
}

// What a step of the rule says; empty: it learned.
std::string said(std::string_view rule, const ModelConfig& config) {
  Model model(config);
  model.allocate(1);
  const BatchData data(config, {.batch = 2, .length = 5}, 3);
  const auto entry = std::ranges::find(rules(), rule, &RuleEntry::name);
  const std::string error =
      message_of([&] { entry->make(model, {}, 5)->accumulate(data.view(), 1, 0.5F); });
  const auto learned =
      std::ranges::count_if(model.parameters().gradients(), [](float g) { return g != 0.0F; });
  EXPECT_EQ(error.empty(), learned > 0) << error;
  return error;
}

TEST(ComparedLayers, NeedWiringsOfOneNorm) {
  for (const std::string wiring : {"sandwich", "reordered", "parallel", "parallel-shared"}) {
    ModelConfig c = decoder();
    c.wiring = wiring;
    for (const char* rule : {"pepita", "mempepita"}) {
      EXPECT_EQ(said(rule, c),
                "[rule] two passes are compared in layers with pre, post or reversible wiring and "
                "their norms; these are " +
                    wiring);
    }
    EXPECT_EQ(said("fa", c), "");
    EXPECT_EQ(said("dfa", c), "");
  }
  ModelConfig c = decoder();
  c.first_norm = false;
  EXPECT_EQ(said("pepita", c),
            "[rule] two passes are compared in layers with pre, post or reversible wiring and "
            "their norms; these are pre without one");
}

TEST(ComparedLayers, NeedOutputsOfProjections) {
  ModelConfig c = decoder();
  c.query_norm = QueryNorm::kHead;
  EXPECT_EQ(said("pepita", c),
            "[rule] the outputs of mha cannot be compared between two passes; need "
            "backpropagation");
  c.frozen_layers = c.layers;  // nothing there learns
  EXPECT_EQ(said("pepita", c), "");
  c = decoder();
  c.embedding_width = 6;
  c.tied = false;
  EXPECT_EQ(said("mempepita", c),
            "[rule] the outputs of a projected embedding, a stem, or one that is normed before its "
            "positions, cannot be compared between two passes; need backpropagation");
}

TEST(ComparedLayers, LearnWithWhatStaysOutsideTheComparison) {
  ModelConfig c = decoder();
  c.head_width = 4;
  c.output_bias = false;
  c.norm_weight = false;
  c.attention = "flash:sinks=true,cap=3,before=2|flash:distances=alibi";
  c.shared_layers = true;
  c.logit_scale = 0.5F;
  c.logit_cap = 4.0F;
  for (const char* rule : {"bp", "fa", "dfa", "pepita", "mempepita"}) EXPECT_EQ(said(rule, c), "");
}

}  // namespace compared_layers_test
}  // namespace longspan
