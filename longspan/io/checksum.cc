#include "longspan/io/checksum.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "longspan/io/file.h"

namespace longspan {

namespace {

static_assert(std::endian::native == std::endian::little, "words are read as little-endian");

template <class Word>
std::uint64_t word_at(const std::byte* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

}  // namespace

void Checksum::add_stripe(const std::byte* stripe) {
  for (std::size_t i = 0; i < 4; ++i) {
    lanes_[i] =
        std::rotl(lanes_[i] + word_at<std::uint64_t>(stripe + 8 * i) * kPrime2, 31) * kPrime1;
  }
}

void Checksum::add(std::span<const std::byte> bytes) {
  const std::size_t waiting = total_ % kStripe;
  total_ += bytes.size();
  if (waiting > 0) {
    const std::size_t taken = std::min(kStripe - waiting, bytes.size());
    std::ranges::copy(bytes.first(taken), pending_.begin() + static_cast<std::ptrdiff_t>(waiting));
    bytes = bytes.subspan(taken);
    if (waiting + taken < kStripe) return;
    add_stripe(pending_.data());
  }
  for (; bytes.size() >= kStripe; bytes = bytes.subspan(kStripe)) add_stripe(bytes.data());
  std::ranges::copy(bytes, pending_.begin());
}

std::uint64_t Checksum::value() const {
  std::uint64_t hash = kPrime5;
  if (total_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) {
      hash = (hash ^ (std::rotl(lane * kPrime2, 31) * kPrime1)) * kPrime1 + kPrime4;
    }
  }
  hash += total_;
  const std::byte* tail = pending_.data();
  std::size_t left = total_ % kStripe;
  for (; left >= 8; left -= 8, tail += 8) {
    hash ^= std::rotl(word_at<std::uint64_t>(tail) * kPrime2, 31) * kPrime1;
    hash = std::rotl(hash, 27) * kPrime1 + kPrime4;
  }
  for (; left >= 4; left -= 4, tail += 4) {
    hash = std::rotl(hash ^ (word_at<std::uint32_t>(tail) * kPrime1), 23) * kPrime2 + kPrime3;
  }
  for (; left > 0; --left, ++tail) {
    hash = std::rotl(hash ^ (std::to_integer<std::uint64_t>(*tail) * kPrime5), 11) * kPrime1;
  }
  hash = (hash ^ (hash >> 33U)) * kPrime2;
  hash = (hash ^ (hash >> 29U)) * kPrime3;
  return hash ^ (hash >> 32U);
}

std::string Checksum::hex() const { return fmt::format("{:016x}", value()); }

std::string checksum_of(const File& file) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20U;
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(kPiece, file.size())));
  Checksum checksum;
  for (std::uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min(kPiece, file.size() - at)));
    file.read_at(at, piece);
    checksum.add(piece);
  }
  return checksum.hex();
}

}  // namespace longspan
