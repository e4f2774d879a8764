#include "longspan/tasks/classes/labelled.h"

#include <algorithm>
#include <cassert>

namespace longspan {

void Labelled::add_part(std::span<const std::uint8_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ends_.push_back(tokens_.size());
}

void Labelled::add(std::span<const std::uint8_t> tokens, std::int32_t label) {
  assert(parts_ == 1);
  add_part(tokens);
  labels_.push_back(label);
}

void Labelled::add(std::span<const std::uint8_t> first, std::span<const std::uint8_t> second,
                   std::int32_t label) {
  assert(parts_ == 2);
  add_part(first);
  add_part(second);
  labels_.push_back(label);
}

std::size_t Labelled::length(std::size_t i) const {
  std::size_t most = 0;
  for (std::size_t part = 0; part < parts_; ++part) most = std::max(most, tokens(i, part).size());
  return most;
}

std::size_t Labelled::longest() const {
  std::size_t most = 0;
  for (std::size_t i = 0; i < size(); ++i) most = std::max(most, length(i));
  return most;
}

void Labelled::add_to(Checksum& checksum) const {
  checksum.add(std::as_bytes(std::span(ends_)));
  checksum.add(std::as_bytes(std::span(labels_)));
  checksum.add(std::as_bytes(std::span(tokens_)));
}

}  // namespace longspan
