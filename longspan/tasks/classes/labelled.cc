#include "longspan/tasks/classes/labelled.h"

#include <algorithm>

namespace longspan {

void Labelled::add(std::span<const std::uint8_t> tokens, std::int32_t label) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ends_.push_back(tokens_.size());
  labels_.push_back(label);
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
