// How rules without a backward pass send the output error back to the input, as a value.
#pragma once

#include <cstdint>

#include "longspan/base/choice.h"

namespace longspan {

// What feeds the update of the last layer (D10).
enum class LastLayer : std::uint8_t {
  kDifference,      // a_L − a_L^err, as every other layer
  kModulatedError,  // the error of the modulated pass
  kStandardError,   // the error of the standard pass: the other passes end before the last layer
};
constexpr Names<3> names_of(LastLayer /*kind*/) {
  return {"rule", "last layer", {"difference", "modulated", "standard"}};
}

// Where the error of a language model is added to its input.
enum class ErrorInjection : std::uint8_t {
  kInput,           // to the one-hot input, which becomes dense: so do embedding and its update
  kAfterEmbedding,  // to the embedding, through a fixed v×d matrix; the update stays sparse
};
constexpr Names<2> names_of(ErrorInjection /*kind*/) {
  return {"rule", "injection", {"input", "embedding"}};
}

// The space in which attention carries the decoder's error to the encoder's input: formula (48) of
// the paper in cost/paper.h has the vocabulary's, the text around it d_model (D5).
enum class ErrorSpace : std::uint8_t { kVocabulary, kModel };
constexpr Names<2> names_of(ErrorSpace /*kind*/) {
  return {"rule", "error space", {"vocabulary", "model"}};
}

// What the last matrix of a residual branch compares: its own output, or the sum that it is added
// into. The error travels along the residual connections, so that the sum carries it unchanged.
enum class BranchSignal : std::uint8_t { kOutput, kSum };
constexpr Names<2> names_of(BranchSignal /*kind*/) {
  return {"rule", "branch signal", {"output", "sum"}};
}

// Which parameters learn beside the last layer: all, or those that write into the residual stream
// (embedding, W_O, FFN₂), where the error arrives as it was sent.
enum class Learners : std::uint8_t { kAll, kStream };
constexpr Names<2> names_of(Learners /*kind*/) { return {"rule", "learners", {"all", "stream"}}; }

// Where two rules part that are otherwise one.
enum class Recall : std::uint8_t {
  kKeep,     // PEPITA: the standard pass keeps its outputs
  kCompute,  // MEMPEPITA: a second standard pass runs beside the modulated one
};

struct Feedback {
  Choice<LastLayer> last_layer = LastLayer::kModulatedError;
  Choice<ErrorInjection> injection = ErrorInjection::kInput;
  Choice<ErrorSpace> error_space = ErrorSpace::kVocabulary;
  Choice<BranchSignal> branch_signal = BranchSignal::kOutput;
  Choice<Learners> learners = Learners::kAll;
  float scale = 0.05F;  // of F, or of the error where there is no F; may be negative

  bool operator==(const Feedback&) const = default;
  template <class See>
  void visit(See see) {
    see("last_layer", last_layer);
    see("injection", injection);
    see("error_space", error_space);
    see("branch_signal", branch_signal);
    see("learners", learners);
    see("feedback_scale", scale, from_to(-1000, 1000));
  }
};

}  // namespace longspan
