// Published models as values, by name.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "longspan/models/config.h"

namespace longspan {

struct Preset {
  std::string_view name;
  std::string_view summary;
  std::string_view source;  // where the sizes are printed
  ModelConfig (*config)();
  std::size_t length;  // tokens of a sequence, where nobody says otherwise
  // Whether the published parameters include a layer that gives scores. Encoders are published
  // without one; `config` then has the smallest that can be trained.
  bool output_layer;
};

// Families together, small before large.
std::span<const Preset> presets();
// Throws Error with the nearest name when there is none.
const Preset& find_preset(std::string_view name);

}  // namespace longspan
