// What the layers take in turn, as ModelConfig writes it: "a|b".
#pragma once

#include <string>
#include <vector>

namespace longspan {

// One part for each layer, as the shortest "a|b|…" whose parts, taken in turn, are these.
std::string in_turn(const std::vector<std::string>& layers);

}  // namespace longspan
