// Sequences of bytes with a class each, one behind the other in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "longspan/io/checksum.h"

namespace longspan {

class Labelled {
 public:
  void add(std::span<const std::uint8_t> tokens, std::int32_t label);

  std::size_t size() const { return labels_.size(); }
  std::span<const std::uint8_t> tokens(std::size_t i) const {
    return std::span(tokens_).subspan(ends_[i], ends_[i + 1] - ends_[i]);
  }
  std::size_t length(std::size_t i) const { return ends_[i + 1] - ends_[i]; }
  std::int32_t label(std::size_t i) const { return labels_[i]; }
  std::span<const std::int32_t> labels() const { return labels_; }
  std::size_t longest() const;

  void add_to(Checksum& checksum) const;

 private:
  std::vector<std::uint8_t> tokens_;
  std::vector<std::uint64_t> ends_ = {0};  // of each sequence, behind a zero
  std::vector<std::int32_t> labels_;
};

}  // namespace longspan
