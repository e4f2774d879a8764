// A batch of sequences, as views of the caller's memory: what a task gives a model. A model reads
// what its family needs and a loss what it compares; the rest is empty.
//
// Either all sequences are as long as the longest, what a shorter one lacks being padding; or they
// are packed, one behind the other without padding, and what is [batch·length] below is [rows()].
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace longspan {

inline constexpr std::int32_t kIgnoredTarget = -1;

// Rows of sequences of these lengths without padding.
inline std::size_t packed_rows(std::span<const std::int32_t> lengths) {
  return static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
}

struct Batch {
  std::size_t batch = 0;
  std::size_t length = 0;                // of the longest
  std::span<const std::int32_t> tokens;  // [batch·length]
  // In place of tokens, or of the source where there is one: [batch·inputs] of a perceptron; what a
  // stem reads (layers/stem.h), pixels or frames; or [batch·length·inputs] where every position has
  // its own.
  std::span<const float> features;
  std::span<const float> times;  // [batch·length], when each position happened
  // [batch·length], or [batch] for a classifier, or [batch/2] for one of pairs, sequences 2i and
  // 2i + 1, or [2·batch] of spans, where each begins and ends; kIgnoredTarget does not count.
  std::span<const std::int32_t> targets;
  // [batch], of a second head for whole sequences (layers/sentence_head.h), beside the targets.
  std::span<const std::int32_t> sentence_targets;
  // In place of targets, for losses of numbers: as many per row as the head has outputs.
  std::span<const float> values;
  // Of losses that compare a model with its teacher: the teacher's scores of every row, as many as
  // the head has outputs, and its last hidden states, as wide as the model's.
  std::span<const float> teacher_scores;
  std::span<const float> teacher_states;
  std::span<const std::int32_t> lengths;  // real tokens of each sequence; empty: all
  // Packed: every sequence has its length in `lengths`, a source in `source_lengths`, 1 or more.
  bool packed = false;
  std::span<const std::int32_t> token_types;  // [batch·length], or empty
  // Of the encoder's tokens, 1 for those that see and are seen by all; empty: the mechanism's
  // choice.
  std::span<const std::uint8_t> globals;
  // Of a dry step: rows that each expert of each branch with experts computes, one behind the
  // other; empty: as evenly as can be.
  std::span<const std::int32_t> loads;
  // Encoder–decoder: the encoder's side; `tokens` is then the decoder's.
  std::size_t source_length = 0;
  std::span<const std::int32_t> source;
  std::span<const std::int32_t> source_lengths;

  std::size_t rows() const { return packed ? packed_rows(lengths) : batch * length; }
  std::size_t source_rows() const {
    return packed ? packed_rows(source_lengths) : batch * source_length;
  }
};

}  // namespace longspan
