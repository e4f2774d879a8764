#include "longspan/learning/feedback_config.h"

#include <array>
#include <string_view>
#include <vector>

#include "longspan/base/config.h"

namespace longspan {

namespace {

template <class Choice, std::size_t n>
Choice choose(std::string_view what, std::string_view name,
              const std::array<std::pair<std::string_view, Choice>, n>& choices) {
  std::vector<std::string_view> known;
  for (const auto& [known_name, choice] : choices) {
    if (known_name == name) return choice;
    known.push_back(known_name);
  }
  throw_unknown("rule", what, name, known);
}

}  // namespace

Feedback feedback_from(const FeedbackConfig& config) {
  using Last = std::pair<std::string_view, LastLayer>;
  using Space = std::pair<std::string_view, ErrorSpace>;
  using Signal = std::pair<std::string_view, BranchSignal>;
  using Learner = std::pair<std::string_view, Learners>;
  using Injection = std::pair<std::string_view, ErrorInjection>;
  return {.last_layer = choose("last layer", config.last_layer,
                               std::array{Last{"difference", LastLayer::kDifference},
                                          Last{"modulated", LastLayer::kModulatedError},
                                          Last{"standard", LastLayer::kStandardError}}),
          .injection = choose("injection", config.injection,
                              std::array{Injection{"input", ErrorInjection::kInput},
                                         Injection{"embedding", ErrorInjection::kAfterEmbedding}}),
          .error_space = choose("error space", config.error_space,
                                std::array{Space{"vocabulary", ErrorSpace::kVocabulary},
                                           Space{"model", ErrorSpace::kModel}}),
          .branch_signal = choose("branch signal", config.branch_signal,
                                  std::array{Signal{"output", BranchSignal::kOutput},
                                             Signal{"sum", BranchSignal::kSum}}),
          .learners = choose(
              "learners", config.learners,
              std::array{Learner{"all", Learners::kAll}, Learner{"stream", Learners::kStream}}),
          .scale = config.scale};
}

}  // namespace longspan
