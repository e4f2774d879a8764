// Trees that are wrong in their meaning but not in their syntax: JSON values in which some were
// replaced, as the bytes of an input say.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "tests/fuzz/fuzzing.h"

namespace longspan::fuzz {

// Walks down to a value and replaces, removes, repeats or wraps it; again until the steering is
// done. Numbers may be infinite or NaN, which JSON writes as null and TOML has words for.
nlohmann::json edited(nlohmann::json tree, Steering& steering);

// Edits of one of the trees, which the first byte names.
nlohmann::json edited(std::span<const nlohmann::json> trees, Bytes input);

// As JSON; what is not UTF-8 is replaced.
std::string json_text(const nlohmann::json& tree);
// As TOML; the tree is an object.
std::string toml_text(const nlohmann::json& tree);

// The sound files of a target as trees.
std::vector<nlohmann::json> sound_trees(std::string_view target);

}  // namespace longspan::fuzz
