// Whether two runs agree to the last bit.
#pragma once

#include <span>
#include <vector>

#include "longspan/models/model.h"

namespace longspan::testing {

bool same_bits(std::span<const float> a, std::span<const float> b);

// With parameters drawn anew, all of them.
Model random_model(const ModelConfig& config);

// Loss and gradients of two steps with the given number of threads.
std::vector<float> train_bits(const ModelConfig& config, const Batch& batch, int threads);

}  // namespace longspan::testing
