#include <algorithm>

#include "longspan/attention/feature/performer.h"
#include "longspan/testing/attention_problem.h"
#include "tests/vectors/golden_attention.h"
#include "tests/vectors/golden_feature.h"

namespace longspan::golden {

// The reference adds 1e-4 to every feature and, in causal sums, 1e-6 to every feature of the keys.
void run_performer(const Case& golden, Comparison& comparison) {
  const auto& config = golden.config();
  const bool plain = config.contains("eps") && config.at("eps").get<double>() == 0.0;
  const bool relu = config.value("generalized", false);
  PerformerConfig ours;
  ours.features = config.at("features").get<std::size_t>();
  if (relu) ours.kernel = "relu";
  if (!relu && !plain) ours.epsilon = 1e-4F;
  if (config.value("causal", false) && !plain) ours.sum_epsilon = 1e-6F;
  comparison.begin("performer");
  testing::Alone<PerformerAttention> performer(ours,
                                               {.d_head = config.at("d_head").get<std::size_t>()});
  Parameters& parameters = performer.parameters();
  parameters.allocate();
  const Parameter& omega = *parameters.find("attention.performer.features");
  golden.file().read_into("projection", omega.shape(), omega.value);
  run_attention(golden, *performer, comparison);
  comparison.finish();
}

}  // namespace longspan::golden
