#include "longspan/io/grey_png.h"

#include <gtest/gtest.h>

#include "longspan/testing/png_bytes.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace grey_png_test {

using testing::grey_png_bytes;
using testing::message_of;
using testing::png_bytes;
using testing::png_chunk;

std::string pixels_of(std::string_view bytes) {
  const GreyImage image = grey_png("a.png", bytes);
  return {image.pixels.begin(), image.pixels.end()};
}

TEST(GreyPng, LevelsAreAsTheyWere) {
  std::string levels;
  for (int i = 0; i < 256; ++i) levels += static_cast<char>(i);
  const GreyImage image = grey_png("a.png", grey_png_bytes(64, levels));
  EXPECT_EQ(image.width, 64U);
  EXPECT_EQ(image.height, 4U);
  EXPECT_EQ(std::string(image.pixels.begin(), image.pixels.end()), levels);
}

TEST(GreyPng, FiltersAndDepths) {
  // Differences from the pixel before, and from the row above.
  const std::string filtered("\1\5\1\1\2\0\0\1", 8);
  EXPECT_EQ(pixels_of(png_bytes({.width = 3, .height = 2}, filtered)),
            std::string("\5\6\7\5\6\x8", 6));
  EXPECT_EQ(pixels_of(png_bytes({.width = 8, .height = 1, .depth = 1}, std::string("\0\xA1", 2))),
            std::string("\xFF\0\xFF\0\0\0\0\xFF", 8));
  EXPECT_EQ(pixels_of(png_bytes({.width = 1, .height = 1, .colour = 2},
                                std::string("\0\x50\x50\x50", 4))),
            "\x50");
  EXPECT_EQ(pixels_of(png_bytes({.width = 2, .height = 1, .colour = 3}, std::string("\0\1\0", 3),
                                png_chunk("PLTE", std::string("\0\0\0\xFF\xFF\xFF", 6)))),
            std::string("\xFF\0", 2));
}

// Gamma and texts change nothing, however they are made.
TEST(GreyPng, OtherChunksAreLeftOut) {
  const std::string rows("\0\x40\x80", 3);
  const std::string plain = png_bytes({.width = 2, .height = 1}, rows);
  const std::string more = png_chunk("gAMA", std::string("\0\1\x86\xA0", 4)) +
                           png_chunk("zTXt", "no text at all") + png_chunk("pHYs", "");
  EXPECT_EQ(pixels_of(png_bytes({.width = 2, .height = 1}, rows, more)), pixels_of(plain));
}

TEST(GreyPng, WhatIsNoneIsASentence) {
  const std::string sound = grey_png_bytes(4, "0123456789ab");
  EXPECT_EQ(message_of([] { grey_png("a.png", ""); }), "[png] a.png: is no PNG file");
  EXPECT_EQ(message_of([] { grey_png("a.png", "GIF89a"); }), "[png] a.png: is no PNG file");
  EXPECT_NE(message_of([] {
              grey_png("a.png", png_bytes({.width = 5000, .height = 5000}, ""));
            }).find("5000x5000 pixels; need at most 4096 a side"),
            std::string::npos);
  for (std::size_t size = 0; size < sound.size(); ++size) {
    const std::string why = message_of([&] { grey_png("a.png", sound.substr(0, size)); });
    EXPECT_TRUE(why.starts_with("[png] a.png: ")) << size << why;
  }
  for (std::size_t at = 8; at < sound.size(); ++at) {
    std::string other = sound;
    other[at] = static_cast<char>(other[at] ^ 0x41);
    EXPECT_TRUE(message_of([&] { grey_png("a.png", other); }).starts_with("[png] a.png: ") ||
                pixels_of(other) == "0123456789ab")
        << at;
  }
  // Fewer rows than the image has.
  EXPECT_NE(message_of([] { grey_png("a.png", png_bytes({.width = 4, .height = 9}, "\1abcd")); }),
            "");
}

}  // namespace grey_png_test
}  // namespace longspan
