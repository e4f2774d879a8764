// Texts that a model continues token by token, side by side from one prompt.
//
// A decoder goes on from the prompt. When it has no position left, it starts again with the newer
// half; a mechanism that cannot decode reads all that fit again for each token. An encoder–decoder
// reads the prompt as its source and writes answers of at most as many tokens as it has
// positions. However many the texts, the prompt is read once.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "longspan/models/model.h"

namespace longspan {

class Writer {
 public:
  // `boundary` is what an encoder–decoder's answer begins with.
  Writer(Model& model, std::vector<std::int32_t> prompt, std::int32_t boundary,
         std::size_t texts = 1);

  // Scores of the next token, a row for each text; valid until the next call.
  ConstMatrix scores();
  // One token for each text.
  void append(std::span<const std::int32_t> tokens);
  // Text `to` becomes what `from` is, between append() and scores() or before the former.
  void copy(std::size_t from, std::size_t to);

  // What was appended to a text.
  std::span<const std::int32_t> written(std::size_t text) const {
    return std::span(texts_[text]).subspan(begin_);
  }
  // How many more tokens there is room for.
  std::size_t room() const {
    return answers_ ? max_length_ + 1 - texts_.front().size()
                    : std::numeric_limits<std::size_t>::max();
  }

 private:
  // `count` tokens before the last `rest` of the first so many texts, with the source of an answer.
  Batch tokens_before(std::size_t rest, std::size_t count, std::size_t texts);
  ConstMatrix decoded(std::vector<DecodeCache>& caches, std::size_t texts);

  Model& model_;
  std::size_t max_length_;
  bool answers_;  // an encoder–decoder
  bool decodes_;
  bool alike_;                         // the texts, none of which is in the caches yet
  std::vector<std::int32_t> sources_;  // one for each text
  std::size_t source_length_ = 0;
  std::vector<std::vector<std::int32_t>> texts_;
  std::size_t begin_;                 // of what is appended
  std::size_t fresh_;                 // tokens at the end that are new to the caches
  std::vector<std::int32_t> tokens_;  // of a batch
  Arena memory_;
  std::vector<DecodeCache> caches_;
  std::vector<DecodeCache> first_;  // for the prompt of several texts
};

}  // namespace longspan
