// XXH64 (Yann Collet, https://xxhash.com): 64 bits over any number of bytes, in pieces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace longspan {

class Checksum {
 public:
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;
  std::string hex() const;  // 16 lower-case digits

 private:
  static constexpr std::size_t kStripe = 32;
  void add_stripe(const std::byte* stripe);

  static constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87ULL;
  static constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FULL;
  static constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9ULL;
  static constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63ULL;
  static constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5ULL;

  std::array<std::uint64_t, 4> lanes_{kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  std::array<std::byte, kStripe> pending_{};
  std::uint64_t total_ = 0;
};

class File;
// The hexadecimal one of all bytes of a file, a piece at a time.
std::string checksum_of(const File& file);

}  // namespace longspan
