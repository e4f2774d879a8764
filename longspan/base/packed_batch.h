// A packed batch from a padded one, and rows of it back at their places.
#pragma once

#include <cstdint>
#include <vector>

#include "longspan/base/batch.h"
#include "longspan/base/view.h"

namespace longspan {

// The memory of a packed batch, of whoever asks for it: it grows with the first batch and is
// overwritten by the next.
struct PackedMemory {
  std::vector<std::int32_t> tokens;
  std::vector<float> times;
  std::vector<std::int32_t> targets;
  std::vector<float> values;
  std::vector<float> teacher_scores;
  std::vector<float> teacher_states;
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> token_types;
  std::vector<std::uint8_t> globals;
  std::vector<std::int32_t> source;
  std::vector<std::int32_t> source_lengths;
};

// Whether a part of it is padding, and no sequence is that alone.
bool has_padding(const Batch& batch);

// What answers the model (targets, values, what a teacher gave) is of every row, or of whole
// sequences: then it stays as it is.
enum class Answers : std::uint8_t { kOfRows, kOfSequences };
Batch pack(const Batch& padded, Answers answers, PackedMemory& memory);

// `rows` of pack(padded) where they are in the padded batch, in `memory`; zeros at padding.
ConstMatrix unpack(ConstMatrix rows, const Batch& padded, std::vector<float>& memory);

}  // namespace longspan
