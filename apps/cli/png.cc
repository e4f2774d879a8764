#include "png.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace longspan::cli {

namespace {

// Letters of 3 × 5 dots, one octal digit per row, from the top.
struct Glyph {
  char sign;
  std::uint16_t rows;
};
constexpr std::array<Glyph, 49> kFont = {{
    {'0', 075557},  {'1', 026227}, {'2', 071747}, {'3', 071717}, {'4', 055711}, {'5', 074717},
    {'6', 074757},  {'7', 071222}, {'8', 075757}, {'9', 075717}, {'a', 025755}, {'b', 065656},
    {'c', 034443},  {'d', 065556}, {'e', 074647}, {'f', 074644}, {'g', 034553}, {'h', 055755},
    {'i', 072227},  {'j', 011152}, {'k', 055655}, {'l', 044447}, {'m', 057755}, {'n', 065555},
    {'o', 025552},  {'p', 065644}, {'q', 025563}, {'r', 065655}, {'s', 034216}, {'t', 072222},
    {'u', 055557},  {'v', 055552}, {'w', 055775}, {'x', 055255}, {'y', 055222}, {'z', 071247},
    {'.', 000002},  {',', 000024}, {':', 002020}, {'-', 000700}, {'=', 007070}, {'+', 002720},
    {'(', 012221},  {')', 042224}, {'%', 051245}, {'/', 011244}, {'_', 000007}, {'|', 022222},
    {'\'', 022000},
}};
constexpr std::size_t kDot = 2;             // pixels of a dot
constexpr std::size_t kAdvance = 4 * kDot;  // from a letter to the next

std::string big_endian(std::size_t x) {
  return {static_cast<char>(x >> 24U), static_cast<char>(x >> 16U), static_cast<char>(x >> 8U),
          static_cast<char>(x)};
}

// The CRC-32 of PNG.
std::uint32_t crc(std::string_view bytes) {
  std::uint32_t value = ~0U;
  for (const char byte : bytes) {
    value ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xEDB88320U : 0U);
    }
  }
  return ~value;
}

std::string chunk(const std::string& type, const std::string& data) {
  return big_endian(data.size()) + type + data + big_endian(crc(type + data));
}

// Bits of a deflate stream (RFC 1951), the lowest of a byte first.
class BitWriter {
 public:
  void put(std::uint32_t bits, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      if (used_ % 8 == 0) bytes_ += '\0';
      const auto bit = static_cast<unsigned char>((bits >> i & 1U) << used_++ % 8);
      bytes_.back() = static_cast<char>(static_cast<unsigned char>(bytes_.back()) | bit);
    }
  }
  // A Huffman code begins with its highest bit.
  void put_code(std::uint32_t code, unsigned count) {
    while (count-- > 0) put(code >> count & 1U, 1);
  }
  // A literal, an end or a length, by the codes that deflate has fixed.
  void put_symbol(std::uint32_t symbol) {
    if (symbol < 144) return put_code(0x30 + symbol, 8);
    if (symbol < 256) return put_code(0x190 + symbol - 144, 9);
    if (symbol < 280) return put_code(symbol - 256, 7);
    put_code(0xC0 + symbol - 280, 8);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::size_t used_ = 0;
};

// The shortest copies that each symbol from 257 on stands for; more follows in extra bits.
constexpr std::array<std::uint16_t, 29> kLengths = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                                    15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                                    67, 83, 99, 115, 131, 163, 195, 227, 258};

// The last byte `count` times more, as copies from a distance of 1; what is left is literals.
void put_run(char byte, std::size_t count, BitWriter& to) {
  while (count >= kLengths.front()) {
    const auto above = std::ranges::upper_bound(kLengths, count);
    const auto index = static_cast<std::uint32_t>(above - kLengths.begin() - 1);
    to.put_symbol(257 + index);
    to.put(0, index < 8 || index == 28 ? 0 : (index - 4) / 4);  // nothing beyond the shortest
    to.put_code(0, 5);                                          // the distance
    count -= kLengths[index];
  }
  while (count-- > 0) to.put_symbol(static_cast<unsigned char>(byte));
}

// A zlib stream whose only compression is of runs: all that flat areas need.
std::string compressed(const std::string& data) {
  BitWriter to;
  to.put(1, 1);  // the last block
  to.put(1, 2);  // with fixed codes
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  for (std::size_t at = 0; at < data.size();) {
    const std::size_t end = std::min(data.find_first_not_of(data[at], at), data.size());
    to.put_symbol(static_cast<unsigned char>(data[at]));
    put_run(data[at], end - at - 1, to);
    for (; at < end; ++at) {
      a = (a + static_cast<unsigned char>(data[at])) % 65521;
      b = (b + a) % 65521;
    }
  }
  to.put_symbol(256);
  return "\x78\x01" + to.bytes() + big_endian(b << 16U | a);
}

}  // namespace

PngImage::PngImage(std::size_t width, std::size_t height)
    : width_(width),
      height_(height),
      pixels_(width * height, 0),
      palette_{{255, 255, 255}, {0, 0, 0}} {}

std::uint8_t PngImage::index_of(const CellColour& colour) {
  auto found = std::ranges::find(palette_, colour);
  if (found == palette_.end()) found = palette_.insert(found, colour);
  return static_cast<std::uint8_t>(found - palette_.begin());
}

void PngImage::fill(std::size_t x, std::size_t y, std::size_t width, std::size_t height,
                    const CellColour& colour) {
  const std::uint8_t index = index_of(colour);
  for (std::size_t row = y; row < std::min(y + height, height_); ++row) {
    for (std::size_t column = x; column < std::min(x + width, width_); ++column) {
      pixels_[row * width_ + column] = index;
    }
  }
}

void PngImage::write(std::size_t x, std::size_t y, std::string_view text) {
  for (const char letter : text) {
    const auto sign = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    const auto found = std::ranges::find(kFont, sign, &Glyph::sign);
    for (std::size_t dot = 0; found != kFont.end() && dot < 15; ++dot) {
      if ((found->rows >> (14 - dot) & 1U) == 0) continue;
      fill(x + dot % 3 * kDot, y + dot / 3 * kDot, kDot, kDot, {});
    }
    x += kAdvance;
  }
}

std::size_t PngImage::width_of(std::string_view text) { return text.size() * kAdvance; }

std::string PngImage::bytes() const {
  std::string palette;
  for (const CellColour& c : palette_) {
    palette += {static_cast<char>(c.red), static_cast<char>(c.green), static_cast<char>(c.blue)};
  }
  std::string rows;
  for (std::size_t y = 0; y < height_; ++y) {
    rows += '\2';  // differences from the row above: equal rows are zeros
    for (std::size_t x = 0; x < width_; ++x) {
      const std::uint8_t above = y == 0 ? 0 : pixels_[(y - 1) * width_ + x];
      rows += static_cast<char>(pixels_[y * width_ + x] - above);
    }
  }
  const std::string form("\x08\x03\0\0\0", 5);  // 8 bits that index the palette
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", big_endian(width_) + big_endian(height_) + form) +
         chunk("PLTE", palette) + chunk("IDAT", compressed(rows)) + chunk("IEND", "");
}

}  // namespace longspan::cli
