#include "longspan/tasks/classes/labelled.h"

#include <algorithm>
#include <cassert>

namespace longspan {

void Labelled::add(std::span<const std::uint8_t> tokens, std::int32_t label) {
  assert(!files_);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ends_.push_back(tokens_.size());
  labels_.push_back(label);
}

void Labelled::add(const FilePlace& place, std::size_t length, std::int32_t label) {
  assert(files_);
  places_.push_back(place);
  ends_.push_back(ends_.back() + length);
  labels_.push_back(label);
}

void Labelled::read(std::size_t i, std::vector<std::uint8_t>& tokens) const {
  if (files_) {
    files_->read(places_[i], length(i), tokens);
    return;
  }
  const auto own = std::span(tokens_).subspan(ends_[i], length(i));
  tokens.assign(own.begin(), own.end());
}

std::size_t Labelled::longest() const {
  std::size_t most = 0;
  for (std::size_t i = 0; i < size(); ++i) most = std::max(most, length(i));
  return most;
}

void Labelled::add_to(Checksum& checksum) const {
  checksum.add(std::as_bytes(std::span(ends_)));
  checksum.add(std::as_bytes(std::span(labels_)));
  if (!files_) checksum.add(std::as_bytes(std::span(tokens_)));
  std::vector<std::uint8_t> tokens;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    read(i, tokens);
    checksum.add(std::as_bytes(std::span(tokens)));
  }
}

}  // namespace longspan
