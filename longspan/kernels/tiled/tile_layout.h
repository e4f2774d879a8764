// How packed tiles lie in memory, the same for every instruction set.
#pragma once

#include <cstddef>

#include "longspan/base/integers.h"

namespace longspan {

// Widths are padded to multiples of this many floats: one cache line, and no vector is wider.
inline constexpr std::size_t kTileUnit = 16;

constexpr std::size_t tile_width(std::size_t width) { return round_up(width, kTileUnit); }

// The distance between rows of a packed matrix: an odd number of cache lines, so that a column of
// it spreads over all sets of the cache.
constexpr std::size_t tile_pitch(std::size_t width) {
  return (tile_width(width) / kTileUnit | 1U) * kTileUnit;
}

}  // namespace longspan
