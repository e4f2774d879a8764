// The bytes of small PNG files, sound or not, for those who read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longspan::testing {

struct PngForm {
  std::uint32_t width = 1;
  std::uint32_t height = 1;
  std::uint8_t depth = 8;
  std::uint8_t colour = 0;  // 0 grey, 2 colours, 3 palette, 4 grey and alpha, 6 colours and alpha
  std::uint8_t interlaced = 0;
};

// A chunk with its length and checksum.
std::string png_chunk(std::string_view name, std::string_view data);

// `rows` are the image's bytes as they are compressed: of each row its filter, then its pixels.
// `between` are chunks before those of the image.
std::string png_bytes(const PngForm& form, std::string_view rows, std::string_view between = {});

// A grey image of these pixels, row by row.
std::string grey_png_bytes(std::uint32_t width, std::string_view pixels);

}  // namespace longspan::testing
