// What a model can be, as choices: shared by those who ask for a model and those who build one.
#pragma once

#include <cstdint>

#include "longspan/base/choice.h"

namespace longspan {

enum class Family : std::uint8_t { kEncoder, kDecoder, kEncoderDecoder, kPerceptron };
constexpr Names<4> names_of(Family /*kind*/) {
  return {"model", "family", {"encoder", "decoder", "encoder-decoder", "mlp"}};
}

// What a model ends in: the next or hidden token, one class of a sequence, one of every token, one
// of every two sequences; or nothing behind its last hidden states.
enum class HeadKind : std::uint8_t { kLanguage, kClassifier, kTagger, kPairs, kStates };
constexpr Names<5> names_of(HeadKind /*kind*/) {
  return {"model", "head", {"lm", "classifier", "tagger", "pairs", "states"}};
}

// What a head of sequences reads: of the last, the last real token; of the largest, the first of
// those with the largest id.
enum class Pool : std::uint8_t { kFirst, kMean, kLast, kLargest };
constexpr Names<4> names_of(Pool /*kind*/) {
  return {"model", "pool", {"first", "mean", "last", "largest"}};
}

// What makes the first states of an encoder (layers/stem.h): a look-up of tokens, or of an image its
// patches, or of sound two convolutions.
enum class StemKind : std::uint8_t { kTokens, kPatches, kSound };
constexpr Names<3> names_of(StemKind /*kind*/) {
  return {"model", "stem", {"tokens", "patches", "sound"}};
}

// Where a layer's norms stand (layers/residual.h). Parallel: all branches of a layer read the same.
enum class Wiring : std::uint8_t {
  kPostNorm,
  kPreNorm,
  kReversible,
  kSandwich,
  kReordered,
  kParallel,
  kParallelShared,
};
constexpr Names<7> names_of(Wiring /*kind*/) {
  return {"model",
          "wiring",
          {"post", "pre", "reversible", "sandwich", "reordered", "parallel", "parallel-shared"}};
}

// What is normed of queries and keys: every head by itself, or all of them side by side.
enum class QueryNorm : std::uint8_t { kNone, kHead, kWhole };
constexpr Names<3> names_of(QueryNorm /*kind*/) {
  return {"model", "query_norm", {"none", "head", "whole"}};
}

// How the two streams of reversible wiring end; concatenated they are twice as wide.
enum class StreamEnd : std::uint8_t { kMean, kConcat };
constexpr Names<2> names_of(StreamEnd /*kind*/) { return {"model", "streams", {"mean", "concat"}}; }

// How tokens are pooled between stages.
enum class StagePool : std::uint8_t { kMean, kMax };
constexpr Names<2> names_of(StagePool /*kind*/) { return {"model", "stage_pool", {"mean", "max"}}; }

enum class PositionKind : std::uint8_t {
  kNone,
  kSinusoidal,
  kLearned,
  kAxial,
  kRotary,
  kTemporal,
  kSinusoidalHalves,
};
constexpr Names<7> names_of(PositionKind /*kind*/) {
  return {"model",
          "positions",
          {"none", "sinusoidal", "learned", "axial", "rotary", "temporal", "sinusoidal-halves"}};
}

}  // namespace longspan
