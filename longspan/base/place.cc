#include "longspan/base/place.h"

#include <fmt/core.h>

namespace longspan {

thread_local Place Place::now_;

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, kPhases> kNames = {"forward", "backward", "update",
                                                            "optimizer"};
  return kNames[static_cast<std::size_t>(phase)];
}

std::string Place::text() const {
  const std::string_view when = pass.empty() ? name_of(phase) : pass;
  if (!block) return fmt::format("{}: {}", when, layer);
  return fmt::format("{} of block {}: {}", when, *block + 1, layer);
}

}  // namespace longspan
