// A bias of the scores by the head h and by r, how many places the key stands before the query.
//
//   alibi     d_r = −s_h·|r|                                      (Press et al., 2022, arXiv:2108.12409)
//             s_h = f·2^(−8(h+1)/H) for H heads, a power of two; else those of the next lower power C
//             and then every second of 2C's
//   buckets   d_r = B[b(r), h], B trained                         (Raffel et al., 2020, arXiv:1910.10683)
//             half of the buckets are for r < 0 if two-sided, else these have r = 0's. Of E that are
//             left the first E/2 are a distance each, the others ⌊ln(|r|·2/E)/ln(span·2/E)·E/2⌋ behind
//             them, at most the last
#pragma once

#include <cstdint>
#include <span>

#include "longspan/base/choice.h"

namespace longspan {

enum class DistanceKind : std::uint8_t { kNone, kAlibi, kBuckets };
constexpr Names<3> names_of(DistanceKind /*kind*/) {
  return {"flash", "distances", {"none", "alibi", "buckets"}};
}

struct Buckets {
  std::size_t count = 32;
  std::size_t span = 128;
  bool two_sided = true;
};

// b(r).
std::size_t bucket_of(const Buckets& buckets, std::ptrdiff_t r);
double alibi_slope(std::size_t head, std::size_t heads);

// The distances between m queries and n keys: r from 1 − m to n − 1, and a tile's lanes behind them,
// which only pad.
std::size_t distance_floats(std::size_t m, std::size_t n);
// d·log₂e of every head, one behind the other.
void fill_alibi(double slope, std::size_t heads, std::size_t m, std::size_t n, std::span<float> d);
void fill_buckets(const Buckets& buckets, std::span<const float> table, std::size_t heads,
                  std::size_t m, std::size_t n, std::span<float> d);
// to[b(r), h] += d_r of one head.
void gather_buckets(const Buckets& buckets, std::span<const float> d, std::size_t m, std::size_t n,
                    std::size_t head, std::size_t heads, std::span<float> to);

}  // namespace longspan
