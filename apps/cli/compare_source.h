// What the attention of a trained or pretrained model is shown when errors are measured on it.
#pragma once

#include <cstddef>
#include <filesystem>

#include "longspan/compare/capture.h"

namespace longspan::cli {

// The attention of a model's middle layer, as it reads a sequence of `length` tokens: of those that
// the run's task trains on, or random ones for a pretrained model, whose tokenizer is not read.
CapturedAttention capture_source(const std::filesystem::path& directory, std::size_t length);

// Reads the model and shows it a few tokens, so that a folder that cannot be used is refused before
// anything is measured. Throws Error in one sentence; returns whether its tokens are random.
bool check_source(const std::filesystem::path& directory);

}  // namespace longspan::cli
