// Rotary positions as configs describe them: base, share of a head, scaling for longer sequences.
#pragma once

#include <string>

#include "longspan/models/config.h"
#include "longspan/models/families/config_fields.h"

namespace longspan {

struct RopeDefaults {
  double base = 10000.0;
  double share = 1.0;  // of a head's channels that turn
  bool interleaved = false;
  std::size_t original = 0;  // positions that scalings were made from; 0: the model's
};

// Reads rope_theta, partial_rotary_factor and rope_scaling (or rope_parameters) into the model,
// whose heads and length are known.
void set_rotary(const ConfigFields& f, const RopeDefaults& defaults, ModelConfig& c);
// Channels that turn of a head of this width, as an option of rotary positions; all: none.
std::string rotary_width(const ModelConfig& c, std::size_t channels);
// "a,b" of a and b, either of which may be empty.
std::string with_option(const std::string& options, const std::string& option);
// The options of a scaling; empty: none. `length` is what the model takes, `original` what it took
// before, where the scaling is silent.
std::string rotary_scaling(const ConfigFields& scaling, std::size_t length, std::size_t original);

}  // namespace longspan
