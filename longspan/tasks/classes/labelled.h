// Examples of one sequence of bytes, or of two, with a class each, one behind the other in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "longspan/io/checksum.h"

namespace longspan {

class Labelled {
 public:
  // `parts`: sequences of an example.
  explicit Labelled(std::size_t parts = 1) : parts_(parts) {}

  // Of one sequence, and of two.
  void add(std::span<const std::uint8_t> tokens, std::int32_t label);
  void add(std::span<const std::uint8_t> first, std::span<const std::uint8_t> second,
           std::int32_t label);

  std::size_t parts() const { return parts_; }
  std::size_t size() const { return labels_.size(); }
  std::span<const std::uint8_t> tokens(std::size_t i, std::size_t part = 0) const {
    const std::size_t at = i * parts_ + part;
    return std::span(tokens_).subspan(ends_[at], ends_[at + 1] - ends_[at]);
  }
  // Of the longest of its sequences.
  std::size_t length(std::size_t i) const;
  std::int32_t label(std::size_t i) const { return labels_[i]; }
  std::span<const std::int32_t> labels() const { return labels_; }
  std::size_t longest() const;

  void add_to(Checksum& checksum) const;

 private:
  void add_part(std::span<const std::uint8_t> tokens);

  std::size_t parts_;
  std::vector<std::uint8_t> tokens_;
  std::vector<std::uint64_t> ends_ = {0};  // of each sequence, behind a zero
  std::vector<std::int32_t> labels_;
};

}  // namespace longspan
