#include "longspan/tasks/image_size.h"

#include <cmath>
#include <string>

#include "longspan/base/error.h"
#include "longspan/base/number.h"

namespace longspan {

ImageSize ImageSize::of_pixels(std::size_t pixels) {
  const auto side = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(pixels))));
  return side * side == pixels ? ImageSize{side, side} : ImageSize{1, pixels};
}

TaskOptions facts_of(const ImageSize& size) {
  if (!size.known()) return {};
  return {{"height", std::to_string(size.height)}, {"width", std::to_string(size.width)}};
}

ImageSize image_size_from(std::string_view who, const TaskOptions& facts) {
  const auto side = [&](std::string_view name) {
    const auto fact = facts.find(name);
    const std::string text = fact == facts.end() ? "" : fact->second;
    return read_number<std::size_t>(who, name, text, from_to(1, 1e9));
  };
  return {side("height"), side("width")};
}

void check_size(std::string_view who, const ImageSize& trained, const ImageSize& size) {
  require(!trained.known() || !size.known() || trained == size,
          "[{}] {}x{} images; the model was trained on {}x{}", who, size.height, size.width,
          trained.height, trained.width);
}

}  // namespace longspan
