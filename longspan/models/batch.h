// A batch of sequences of equal (padded) length, as views of the caller's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "longspan/layers/history.h"

namespace longspan {

struct Batch {
  std::size_t batch = 0;
  std::size_t length = 0;
  std::span<const std::int32_t> tokens;  // [batch·length]
  std::span<const float> features;       // [batch·inputs], of a perceptron in place of tokens
  // [batch·length], or [batch] for a classifier; −1: ignored.
  std::span<const std::int32_t> targets;
  std::span<const std::int32_t> lengths;      // real tokens of each sequence; empty: all
  std::span<const std::int32_t> token_types;  // [batch·length], or empty
  // Of the encoder's tokens, 1 for those that see and are seen by all; empty: the mechanism's
  // choice.
  std::span<const std::uint8_t> globals;
  // Of a dry step: rows that each expert of each branch with experts computes, one behind the
  // other; empty: as evenly as can be.
  std::span<const std::int32_t> loads;
  // What the layers of the (only or decoder's) stack remember of earlier segments; empty: nothing.
  std::span<History> histories;
  // Encoder–decoder: the encoder's side; `tokens` is then the decoder's.
  std::size_t source_length = 0;
  std::span<const std::int32_t> source;
  std::span<const std::int32_t> source_lengths;
};

}  // namespace longspan
