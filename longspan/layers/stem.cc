#include "longspan/layers/stem.h"

#include "longspan/layers/patches.h"
#include "longspan/layers/sound.h"

namespace longspan {

std::unique_ptr<Stem> make_stem(Parameters& parameters, const std::string& name,
                                const StemConfig& config) {
  switch (config.kind) {
    case StemKind::kTokens:
      break;
    case StemKind::kPatches:
      return std::make_unique<PatchStem>(parameters, name, config);
    case StemKind::kSound:
      return std::make_unique<SoundStem>(parameters, name, config);
  }
  return nullptr;
}

}  // namespace longspan
