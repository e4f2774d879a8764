// Texts with the names of their classes, from the files that people have (text_class.h says which).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/tasks/task.h"

namespace longspan {

struct LabelledText {
  std::string text;
  std::string label;
  std::optional<Split> split;  // where the data say so
};

// The split that a word of the data names: train…, val… or dev…, test….
std::optional<Split> split_of(std::string_view word);

// Of each text the first `bytes`. Throws Error, "[who] file:line: …", for what is none.
std::vector<LabelledText> read_labelled_texts(std::string_view who,
                                              const std::filesystem::path& data, std::size_t bytes);

// The names in the order in which classes are numbered: numbers by value, others by name.
std::vector<std::string> class_names(const std::vector<LabelledText>& texts);

}  // namespace longspan
