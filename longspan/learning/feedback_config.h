// The choices of rules that send the output error to the input, as a value.
#pragma once

#include <string>

#include "longspan/learning/feedback.h"

namespace longspan {

struct FeedbackConfig {
  std::string last_layer = "modulated";    // difference, modulated, standard
  std::string injection = "input";         // input, embedding
  std::string error_space = "vocabulary";  // vocabulary, model
  std::string branch_signal = "output";    // output, sum
  std::string learners = "all";            // all, stream
  float scale = 0.05F;

  bool operator==(const FeedbackConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("last_layer", last_layer);
    see("injection", injection);
    see("error_space", error_space);
    see("branch_signal", branch_signal);
    see("learners", learners);
    see("feedback_scale", scale);
  }
};

// Throws Error with the nearest name for a choice that there is not.
Feedback feedback_from(const FeedbackConfig& config);

}  // namespace longspan
