// How rules without a backward pass send the output error back to the input.
#pragma once

#include <cstdint>

namespace longspan {

// What feeds the update of the last layer (D10).
enum class LastLayer : std::uint8_t {
  kDifference,      // a_L − a_L^err, as every other layer
  kModulatedError,  // the error of the modulated pass
  kStandardError,   // the error of the standard pass: the other passes end before the last layer
};

// Where the error of a language model is added to its input.
enum class ErrorInjection : std::uint8_t {
  kInput,           // to the one-hot input, which becomes dense: so do embedding and its update
  kAfterEmbedding,  // to the embedding, through a fixed v×d matrix; the update stays sparse
};

// The space in which attention carries the decoder's error to the encoder's input: formula (48) of
// the paper in cost/paper.h has the vocabulary's, the text around it d_model (D5).
enum class ErrorSpace : std::uint8_t { kVocabulary, kModel };

// What the last matrix of a residual branch compares: its own output, or the sum that it is added
// into. The error travels along the residual connections, so that the sum carries it unchanged.
enum class BranchSignal : std::uint8_t { kOutput, kSum };

// Which parameters learn beside the last layer: all, or those that write into the residual stream
// (embedding, W_O, FFN₂), where the error arrives as it was sent.
enum class Learners : std::uint8_t { kAll, kStream };

// Where two rules part that are otherwise one.
enum class Recall : std::uint8_t {
  kKeep,     // PEPITA: the standard pass keeps its outputs
  kCompute,  // MEMPEPITA: a second standard pass runs beside the modulated one
};

struct Feedback {
  LastLayer last_layer = LastLayer::kModulatedError;
  ErrorInjection injection = ErrorInjection::kInput;
  ErrorSpace error_space = ErrorSpace::kVocabulary;
  BranchSignal branch_signal = BranchSignal::kOutput;
  Learners learners = Learners::kAll;
  float scale = 0.05F;  // of F, or of the error where there is no F; may be negative
  bool operator==(const Feedback&) const = default;
};

}  // namespace longspan
