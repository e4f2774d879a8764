// What the attention of a trained or pretrained model is shown when errors are measured on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "longspan/models/model.h"

namespace longspan::cli {

// Throws Error, in one sentence, for a run whose task gives something else than one sequence of
// tokens.
void check_source(const std::filesystem::path& directory);

struct Source {
  std::unique_ptr<Model> model;
  std::vector<std::int32_t> tokens;
};
// Tokens that the run's task trains on; random ones for a pretrained model, which has no task here.
Source open_source(const std::filesystem::path& directory, std::size_t length);

}  // namespace longspan::cli
