// What a layer remembers of earlier segments: its inputs, without gradients (Dai et al., 2019).
//
// The next segment reads what the last ones left; while it runs its own inputs are written beside
// them, and advance() makes those the history. A step that is not advanced leaves no trace.
#pragma once

#include <cstddef>
#include <vector>

#include "longspan/base/view.h"

namespace longspan {

class History {
 public:
  // The last `capacity` tokens of each sequence.
  History(std::size_t batch, std::size_t capacity, std::size_t d_model);

  std::size_t batch() const { return batch_; }
  // Tokens of each sequence that are remembered.
  std::size_t length() const { return length_; }
  ConstMatrix rows() const { return {now_.data(), batch_ * length_, d_model_}; }

  // Takes the inputs [batch·length, d_model] of this segment; a dry step leaves it as it is.
  void record(ConstMatrix x);
  void advance();
  void clear() { length_ = next_length_ = 0; }

 private:
  std::size_t batch_;
  std::size_t capacity_;
  std::size_t d_model_;
  std::size_t length_ = 0;
  std::size_t next_length_ = 0;
  std::vector<float> now_;
  std::vector<float> next_;
};

}  // namespace longspan
