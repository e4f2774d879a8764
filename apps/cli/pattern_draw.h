// The picture of a mechanism: read off its pattern where that is fixed, else off its weights.
#pragma once

#include <cstddef>
#include <string>

#include "picture.h"

namespace longspan::cli {

struct PatternRequest {
  std::string attention;  // a specification; what it does not say is scaled to the tokens
  std::size_t length = 64;
  std::size_t heads = 4;
  std::size_t head = 0;
  bool causal = false;
};

// Of at most so many cells a side, whose number bounds the work and the memory, not the length's.
Picture draw_pattern(const PatternRequest& request, std::size_t cells);

}  // namespace longspan::cli
