// The keys with the largest scores, without storing the scores: a heap of k per query.
#pragma once

#include <cstddef>
#include <cstdint>

#include "longspan/base/view.h"

namespace longspan {

// Floats of scratch, aligned to 64 bytes, and integers.
std::size_t top_keys_floats(std::size_t d, std::size_t k);
std::size_t top_keys_integers(std::size_t k);

// to[i·k …] = the k rows of `keys` with the largest q_i·key, in ascending order; of equals the
// first ones. k ≤ keys.rows. On the calling thread.
void top_keys(ConstMatrix q, ConstMatrix keys, std::size_t k, std::int32_t* to, float* floats,
              std::int32_t* integers);

}  // namespace longspan
