// An image of flat areas and small letters, and its bytes as a PNG: a palette, and runs of equal
// pixels compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "picture.h"

namespace longspan::cli {

class PngImage {
 public:
  PngImage(std::size_t width, std::size_t height);
  // What lies outside is cut off.
  void fill(std::size_t x, std::size_t y, std::size_t width, std::size_t height,
            const CellColour& colour);
  // In black, 10 pixels high; signs that the font does not have are gaps.
  void write(std::size_t x, std::size_t y, std::string_view text);
  static std::size_t width_of(std::string_view text);
  std::string bytes() const;

 private:
  std::uint8_t index_of(const CellColour& colour);

  std::size_t width_;
  std::size_t height_;
  std::vector<std::uint8_t> pixels_;  // indices of the palette
  std::vector<CellColour> palette_;
};

}  // namespace longspan::cli
