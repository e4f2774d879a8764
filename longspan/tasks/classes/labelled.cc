#include "longspan/tasks/classes/labelled.h"

#include <algorithm>
#include <cassert>

namespace longspan {

void Labelled::add_part(std::span<const std::uint8_t> tokens) {
  assert(!files_);
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

void Labelled::add(const FilePlace& place, std::size_t length, std::int32_t label) {
  assert(files_);
  places_.push_back(place);
  ends_.push_back(ends_.back() + length);
  labels_.push_back(label);
}

void Labelled::read(std::size_t i, std::size_t part, std::vector<std::uint8_t>& tokens) const {
  const std::size_t at = i * parts_ + part;
  if (files_) {
    files_->read(places_[at], length_at(at), tokens);
    return;
  }
  const auto own = std::span(tokens_).subspan(ends_[at], length_at(at));
  tokens.assign(own.begin(), own.end());
}

std::size_t Labelled::length(std::size_t i) const {
  std::size_t most = 0;
  for (std::size_t part = 0; part < parts_; ++part) {
    most = std::max(most, length_at(i * parts_ + part));
  }
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
  if (!files_) checksum.add(std::as_bytes(std::span(tokens_)));
  std::vector<std::uint8_t> tokens;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    read(i, 0, tokens);
    checksum.add(std::as_bytes(std::span(tokens)));
  }
}

}  // namespace longspan
