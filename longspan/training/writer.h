// A text that a model continues token by token.
//
// A decoder goes on from the prompt. When it has no position left, it starts again with the newer
// half; a mechanism that cannot decode reads all that fit again for each token. An encoder–decoder
// reads the prompt as its source and writes an answer of at most as many tokens as it has
// positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "longspan/models/model.h"

namespace longspan {

class Writer {
 public:
  // `boundary` is what an encoder–decoder's answer begins with.
  Writer(Model& model, std::vector<std::int32_t> prompt, std::int32_t boundary);

  // Scores of the next token; valid until the next call.
  std::span<const float> scores();
  void append(std::int32_t token);
  // Whether there is no room for another token.
  bool full() const { return answers_ && tokens_.size() > max_length_; }

 private:
  // The last `count` tokens, with the source of an answer.
  Batch last(std::size_t count) const;

  Model& model_;
  std::size_t max_length_;
  bool answers_;  // an encoder–decoder
  bool decodes_;
  std::vector<std::int32_t> source_;
  std::vector<std::int32_t> tokens_;
  std::size_t fresh_;  // tokens at the end that are new to the caches
  Arena memory_;
  std::vector<DecodeCache> caches_;
};

}  // namespace longspan
