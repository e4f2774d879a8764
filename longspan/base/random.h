// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011).
//
// A number is a pure function of (key, counter), so the result depends neither on the number of
// threads nor on the order of evaluation, and nothing has to be stored to draw it again.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace longspan {

using RandomKey = std::uint64_t;
using RandomBlock = std::array<std::uint32_t, 4>;

// One Philox round multiplies by these and bumps the key by those; the SIMD twin shares them.
inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53U;
inline constexpr std::uint32_t kPhiloxMultiplier1 = 0xCD9E8D57U;
inline constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9U;
inline constexpr std::uint32_t kPhiloxWeyl1 = 0xBB67AE85U;
inline constexpr int kPhiloxRounds = 10;

constexpr RandomBlock philox(RandomKey key, RandomBlock c) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{kPhiloxMultiplier0} * c[0];
    const std::uint64_t p1 = std::uint64_t{kPhiloxMultiplier1} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32U) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32U) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += kPhiloxWeyl0;
    k1 += kPhiloxWeyl1;
  }
  return c;
}

// An independent stream: mixes words into a key (splitmix64 finaliser).
constexpr RandomKey derive(RandomKey key, std::uint64_t word) {
  std::uint64_t z = key + 0x9E3779B97F4A7C15ULL * (word + 1);
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}
constexpr RandomKey derive(RandomKey key, std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return derive(key, hash);
}

// Element `index` of the stream `key`.
constexpr std::uint32_t random_bits(RandomKey key, std::uint64_t index) {
  const std::uint64_t block = index / 4;
  return philox(key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U),
                      0, 0})[index % 4];
}
// Uniform in [0, 1), with 24 bits.
constexpr float to_uniform(std::uint32_t bits) { return static_cast<float>(bits >> 8U) * 0x1p-24F; }
constexpr float random_uniform(RandomKey key, std::uint64_t index) {
  return to_uniform(random_bits(key, index));
}
// Standard normal (Box–Muller on two words). Many: kernels/rows/draw_normal.h, other numbers.
float random_normal(RandomKey key, std::uint64_t index);
// Uniform in {0, …, bound − 1}.
constexpr std::uint64_t random_below(RandomKey key, std::uint64_t index, std::uint64_t bound) {
  const RandomBlock r = philox(
      key, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32U), 1, 0});
  const std::uint64_t wide = (std::uint64_t{r[0]} << 32U) | r[1];
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(wide) * bound) >> 64U);
}

// Dropout: element (row, col) of plane `plane` is dropped with probability `rate`. The counter is
// {row, col / 4, plane, 0} and word col % 4 decides, so that four neighbouring columns share a
// block.
struct Dropout {
  float rate = 0.0F;
  RandomKey key = 0;

  bool active() const { return rate > 0.0F; }
  // Dropped where bits < threshold.
  std::uint32_t threshold() const {
    return static_cast<std::uint32_t>(static_cast<double>(rate) * 4294967296.0);
  }
  float scale() const { return 1.0F / (1.0F - rate); }
  float factor(std::uint32_t plane, std::uint32_t row, std::uint32_t col) const {
    return philox(key, {row, col / 4, plane, 0})[col % 4] < threshold() ? 0.0F : scale();
  }
};

}  // namespace longspan
