// Roles and places of parameters, held against their names.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "longspan/models/model.h"
#include "longspan/testing/reference_cases.h"

namespace longspan {
namespace roles_test {

using testing::ModelCase;

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Role role_by_name(const Parameter& p) {
  if (p.name.starts_with("mlp.")) return Role::kHidden;
  if (p.name.starts_with("head.output.")) return Role::kLastLayer;
  if (p.name.starts_with("head.") || p.name.starts_with("sentence_head.")) return Role::kHead;
  if (holds(p.name, "embedding.")) return Role::kEmbedding;
  if (p.name.ends_with(".gamma")) return Role::kMechanism;  // of what it sums up itself
  if (holds(p.name, "_norm.") || p.name.ends_with("coder.norm.weight") ||
      p.name.ends_with("coder.norm.bias")) {
    return Role::kNorm;
  }
  if (holds(p.name, ".lora_")) {
    return holds(p.name, ".out.") ? Role::kOutputAdapter : Role::kAdapter;
  }
  if (holds(p.name, ".out.") || holds(p.name, ".convolution.")) return Role::kBranchOutput;
  return p.name.ends_with(".weight") || p.name.ends_with(".bias") ? Role::kProjection
                                                                  : Role::kMechanism;
}

void expect_roles(const ModelConfig& config) {
  const Model model(config);
  for (const Parameter& p : model.parameters().all()) {
    EXPECT_EQ(p.role, role_by_name(p)) << p.name;
    const bool of_stack = p.name.starts_with("encoder.") || p.name.starts_with("decoder.");
    if (!of_stack) continue;
    EXPECT_TRUE(p.name.starts_with(name_of(p.place.part))) << p.name;
    const char after = p.name[std::string_view("encoder.").size()];
    ASSERT_EQ(p.place.block.has_value(), after >= '0' && after <= '9') << p.name;
    if (!p.place.block) continue;
    const std::string block =
        fmt::format("{}.{}.{}", name_of(p.place.part), *p.place.block, p.place.layer);
    EXPECT_TRUE(p.name.starts_with(block)) << p.name << " is not of " << block;
  }
}

TEST(Roles, AreWhatTheNamesSay) {
  for (const auto& cases :
       {testing::model_cases(), testing::expert_cases(), testing::perceptron_cases(),
        testing::frozen_cases(), testing::pair_cases()}) {
    for (const ModelCase& c : cases) {
      SCOPED_TRACE(c.name);
      expect_roles(c.config);
    }
  }
}

TEST(Roles, OfEveryMechanismAreWhatTheNamesSay) {
  for (const Mechanism& mechanism : mechanisms()) {
    for (const ModelConfig& c : testing::models_around(mechanism)) {
      SCOPED_TRACE(fmt::format("{} {}", c.family, c.attention));
      expect_roles(c);
    }
  }
  // Tables of a whole stack.
  ModelConfig c;
  c.family = Family::kEncoder;
  for (const char* attention : {"linformer:sharing=layerwise", "deberta"}) {
    c.attention = attention;
    expect_roles(c);
  }
}

}  // namespace roles_test
}  // namespace longspan
