// Which examples make a batch of training, so that little of it is padding.
//
// Every pass takes the examples in a new random order and cuts them into groups of 64 batches.
// Within a group they are sorted by length, so that a batch has sequences of nearly one length; then
// the batches of the group are shuffled, so that lengths come in no order. What is left of a pass
// that is no whole batch waits for another pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "longspan/base/random.h"

namespace longspan {

class Bucketed {
 public:
  using Length = std::function<std::size_t(std::size_t)>;

  // Batch number `step` of `rows` of `count` examples: a pure function of (key, step), whose pass is
  // remembered. Where there are fewer than `rows`, they come several times.
  std::span<const std::uint32_t> batch(RandomKey key, std::uint64_t step, std::size_t rows,
                                       std::size_t count, const Length& length);

 private:
  void order_pass(RandomKey key, std::size_t rows, std::size_t count, const Length& length);

  std::vector<std::uint32_t> order_;
  RandomKey order_key_ = 0;
  std::size_t rows_ = 0;
};

}  // namespace longspan
