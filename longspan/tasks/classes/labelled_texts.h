// Texts with the names of their classes, from the files that people have (text_class.h says which).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/tasks/classes/example_files.h"
#include "longspan/tasks/task.h"

namespace longspan {

struct LabelledText {
  FilePlace place;
  std::uint32_t length = 0;    // bytes of the text that are read
  std::int32_t label = 0;      // which of LabelledTexts::labels
  std::int16_t fold = -1;      // where the data say so
  std::optional<Split> split;  // likewise
};

struct LabelledTexts {
  std::shared_ptr<ExampleFiles> files;
  std::vector<LabelledText> texts;
  std::vector<std::string> labels;  // `known` ones, or as they came
};

// Of each text the first `bytes`. Throws Error, "[who] file:line: …", for what is none, and for a
// label that is none of the `known` where there are any.
LabelledTexts read_labelled_texts(std::string_view who, const std::filesystem::path& data,
                                  std::size_t bytes, const std::vector<std::string>& known = {});

// The labels in the order of their classes: numbers come by value, others behind them by name.
std::vector<std::string> in_order_of_classes(std::vector<std::string> labels);

}  // namespace longspan
