// A family of released checkpoints: what its config.json means, and where its tensors go. One stem
// per family, one line in registry.cc.
#pragma once

#include <span>
#include <string_view>

#include "longspan/models/families/config_fields.h"
#include "longspan/models/families/placer.h"

namespace longspan {

// A class whose weights a checkpoint is.
struct CheckpointHead {
  std::string_view architecture;
  void (*config)(const ConfigFields& f, ModelConfig& c);
  void (*place)(Placer& p);
};

struct CheckpointFamily {
  std::string_view model_type;  // of config.json
  std::string_view base;        // what the tensors of the body begin with
  ModelConfig (*config)(const ConfigFields& f);
  void (*place)(Placer& p);
  // The first is meant by a config that names none.
  std::span<const CheckpointHead> heads;
};

std::span<const CheckpointFamily* const> checkpoint_families();
// What a family that is known but not here waits for; empty for any other.
std::string_view waits_for(std::string_view model_type);

}  // namespace longspan
