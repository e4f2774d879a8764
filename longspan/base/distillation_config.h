// How a student learns from a teacher (layers/distillation.h): what the loss computes, and what a
// run says of it.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "longspan/base/number.h"

namespace longspan {

struct DistillationConfig {
  static constexpr std::string_view kLoss = "distillation";

  float temperature = 2.0F;     // T
  float teacher_weight = 0.7F;  // w; Sanh et al. have five parts of seven
  float hidden_weight = 0.0F;   // c

  bool operator==(const DistillationConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("temperature", temperature, above_to(0, 1e3));
    see("teacher_weight", teacher_weight, from_to(0, 1));
    see("hidden_weight", hidden_weight, from_to(0, 1e3));
  }

  // "distillation:temperature=2,…", as a model's loss.
  std::string loss() const {
    std::string options;
    DistillationConfig copy = *this;
    copy.visit([&](std::string_view name, auto& field, const auto&... /*bounds*/) {
      options += fmt::format("{}{}={}", options.empty() ? ':' : ',', name, field);
    });
    return std::string(kLoss) + options;
  }
};

}  // namespace longspan
