#include "longspan/testing/png_bytes.h"

namespace longspan::testing {

namespace {

std::string four_bytes(std::uint32_t x) {
  return {static_cast<char>(x >> 24U), static_cast<char>(x >> 16U), static_cast<char>(x >> 8U),
          static_cast<char>(x)};
}

std::uint32_t crc_of(std::string_view bytes) {
  std::uint32_t value = ~0U;
  for (const char byte : bytes) {
    value ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xEDB88320U : 0U);
    }
  }
  return ~value;
}

// A zlib stream (RFC 1950) of blocks that are not compressed.
std::string stored(std::string_view data) {
  std::string to = "\x78\x01";
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  std::string_view left = data;
  do {
    const std::string_view block = left.substr(0, 65535);
    left.remove_prefix(block.size());
    const auto size = static_cast<std::uint32_t>(block.size());
    to += static_cast<char>(left.empty() ? 1 : 0);
    for (const std::uint32_t half : {size, ~size}) {
      to += static_cast<char>(half);
      to += static_cast<char>(half >> 8U);
    }
    to += block;
  } while (!left.empty());
  for (const char byte : data) {
    a = (a + static_cast<unsigned char>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return to + four_bytes(b << 16U | a);
}

}  // namespace

std::string png_chunk(std::string_view name, std::string_view data) {
  const std::string both = std::string(name) + std::string(data);
  return four_bytes(static_cast<std::uint32_t>(data.size())) + both + four_bytes(crc_of(both));
}

std::string png_bytes(const PngForm& form, std::string_view rows, std::string_view between) {
  std::string header = four_bytes(form.width) + four_bytes(form.height);
  for (const std::uint8_t byte :
       {form.depth, form.colour, std::uint8_t{0}, std::uint8_t{0}, form.interlaced}) {
    header += static_cast<char>(byte);
  }
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", header) + std::string(between) +
         png_chunk("IDAT", stored(rows)) + png_chunk("IEND", "");
}

std::string grey_png_bytes(std::uint32_t width, std::string_view pixels) {
  std::string rows;
  for (std::size_t at = 0; at < pixels.size(); at += width) {
    rows += '\0';
    rows += pixels.substr(at, width);
  }
  const auto height = static_cast<std::uint32_t>(pixels.size() / width);
  return png_bytes({.width = width, .height = height}, rows);
}

}  // namespace longspan::testing
