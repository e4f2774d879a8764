// PNG images as levels of grey, read by libpng.
//
// Only chunks without which there is no image are handed to it: what others say (gamma, profiles,
// texts) changes no pixel here, and may be made to fill the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace longspan {

struct GreyImage {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<std::uint8_t> pixels;  // height·width, row by row
};

inline constexpr std::size_t kMostPngSide = 4096;

// The image of a PNG file's bytes: any depth and colour, transparent parts on black. Throws Error,
// "[png] source: …", for what is none.
GreyImage grey_png(std::string_view source, std::string_view bytes);

}  // namespace longspan
