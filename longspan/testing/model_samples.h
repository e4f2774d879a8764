// Models drawn from the product of families, wirings, mechanisms and options, each with a batch
// that it can take: the n-th is the same wherever it is drawn.
#pragma once

#include <cstdint>

#include "longspan/testing/reference_cases.h"

namespace longspan::testing {

ModelCase sample_model(std::uint64_t n);
// The same with what is not attention and not one feed-forward: mixers, experts.
ModelCase sample_guest(std::uint64_t n);
// The same with an encoder that reads images or sound, of other widths, wirings and norms too.
ModelCase sample_stem(std::uint64_t n);
// Either, with what released models have: other widths, wirings, norms, biases, rotary positions and
// heads, and the options of exact attention.
ModelCase sample_released(std::uint64_t n);

}  // namespace longspan::testing
