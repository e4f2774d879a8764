// What a branch remembers of the tokens that it has decoded, in one block that it lays out itself:
// keys and values and notes on them, a state of fixed size, the last inputs of a convolution; the
// keys and values of what cross-attention reads.
//
// The branch also says where in the block the sequences lie, so that one can go on from where
// another has come: a search that follows several texts needs nothing else of it.
#pragma once

#include <array>
#include <cstddef>
#include <limits>

namespace longspan {

struct DecodeCache {
  // A stretch of the block: the sequences one behind the other, or what they have in common.
  struct Part {
    std::size_t begin = 0;   // float of the block
    std::size_t each = 0;    // floats of a sequence; 0: none has floats of its own
    std::size_t planes = 1;  // into which these fall, of equal size
    std::size_t token = 0;   // floats of a token in a plane, in order; 0: all are in use
    std::size_t common = 0;  // floats that belong to all sequences
    bool fixed = false;      // the same for sequences of one source, from the first token on
  };

  // Where only the last tokens are read, earlier ones are dropped so many at a time: kernels cut the
  // others as they would cut all.
  static constexpr std::size_t kDropped = 64;
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

  std::size_t batch = 0;
  std::size_t capacity = 0;   // tokens
  std::size_t window = kAll;  // of them, that a new one reads
  std::size_t used = 0;       // tokens decoded so far
  std::size_t floats = 0;     // of the block
  std::size_t zeroed = 0;     // of them, the first so many begin as zeros
  std::array<Part, 3> parts = {};
  float* data = nullptr;

  // The first token that is kept when `tokens` have been decoded.
  std::size_t first_of(std::size_t tokens) const {
    return tokens <= window ? 0 : (tokens - window) / kDropped * kDropped;
  }
  void clear();
  // Sequence `to` becomes what `from` is. They read the same source.
  void copy_sequence(std::size_t from, std::size_t to) const;
  // Every sequence becomes the only one of another cache of the same branch and capacity.
  void take(const DecodeCache& one);
};

}  // namespace longspan
