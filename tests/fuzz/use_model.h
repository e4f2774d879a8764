// What anybody does with the config of a model: check it, count it, and, where it is small, build it
// and take a step.
#pragma once

#include "longspan/models/config.h"

namespace longspan::fuzz {

void use_model(const ModelConfig& config);

}  // namespace longspan::fuzz
