// The files of the splits of a data set, from what people type.
//
//   a directory             the one file in it whose name has the word "train", and likewise "val"
//                           or "dev" or "eval", and "test"
//   a file, "…train….tsv"   the same, of the files beside it whose names differ in that word alone
//   any other file          all there is: cut into 80, 10 and 10 of every hundred examples
//
// A word is made of letters only, in either case: "latest.tsv" is not for testing.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "longspan/tasks/task.h"

namespace longspan {

struct SplitFiles {
  std::filesystem::path training;
  std::optional<std::filesystem::path> validation;
  std::optional<std::filesystem::path> test;
  bool one = false;  // `training` is all there is
};

// The split that a text names by its last such word: "train", "Validation", "test_2".
std::optional<Split> split_of(std::string_view text);

// Throws Error, "[who] …", where there is no such file or there are several.
SplitFiles split_files(std::string_view who, const std::filesystem::path& data);

}  // namespace longspan
