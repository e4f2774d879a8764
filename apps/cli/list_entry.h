// longspan list NAME: what there is to know of one entry of a registry.
#pragma once

#include <cstddef>
#include <string>

#include "longspan/attention/registry.h"

namespace longspan::cli {

// Weights that a mechanism itself adds to a layer of 8 heads of 64 and sequences of up to 4096.
std::size_t own_parameters(const Mechanism& mechanism);

// A mechanism, a branch, a model, a task or a rule; throws Error with the nearest name.
void print_entry(const std::string& name, bool json);

}  // namespace longspan::cli
