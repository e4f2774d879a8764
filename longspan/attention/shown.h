// Settings for pictures: at the lengths that one can look at, a mechanism's defaults, which are
// meant for thousands of tokens, would cover everything. A config whose sizes matter has
//
//   void show_at(std::size_t tokens) { block = shown_size(tokens / 8, block); }
#pragma once

#include <algorithm>
#include <cstddef>

namespace longspan {

// `wished`, but at least 1 and never above the default.
inline std::size_t shown_size(std::size_t wished, std::size_t standard) {
  return std::clamp<std::size_t>(wished, 1, standard);
}

}  // namespace longspan
