// The size of the images that a model was trained on, which is a fact of its training data: other
// images are refused.
#pragma once

#include <cstddef>
#include <string_view>

#include "longspan/tasks/task.h"

namespace longspan {

struct ImageSize {
  std::size_t height = 0;  // 0: not known
  std::size_t width = 0;

  // Of images whose pixels alone are known: square where they can be, or else one row.
  static ImageSize of_pixels(std::size_t pixels);

  bool known() const { return height > 0; }
  bool operator==(const ImageSize&) const = default;
};

// As Task::learned() and use_learned() have it. Throws Error, "[who] …", for what is no size.
TaskOptions facts_of(const ImageSize& size);
ImageSize image_size_from(std::string_view who, const TaskOptions& facts);

// Throws Error where both are known and differ.
void check_size(std::string_view who, const ImageSize& trained, const ImageSize& size);

}  // namespace longspan
