// Pictures of dashed paths with two marks (Linsley et al. 2018): are the marks the ends of one path?
//
// Two long paths of `dashes` dashes each and some short ones, none near another, on a dark square. A
// path is a random walk whose direction changes little from dash to dash. The marks are the two ends
// of one long path (1), or an end of each (0), so that marks, dashes and their number say nothing:
// a path must be followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "longspan/base/random.h"

namespace longspan {

struct PathRules {
  std::size_t side = 32;        // pixels
  std::size_t dashes = 6;       // of a long path: 6, 9 and 14 are the published levels
  std::size_t distractors = 6;  // short paths, of two dashes
};

struct PathPicture {
  std::vector<std::uint8_t> pixels;  // side·side, row by row
  std::int32_t connected = 0;
};

// A function of `key`; throws Error where so many paths do not fit.
PathPicture draw_paths(RandomKey key, const PathRules& rules);

}  // namespace longspan
