#include "picture.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace longspan::cli {

namespace {

struct Colour {
  std::string_view reason;
  std::array<std::uint8_t, 3> rgb;
  int terminal;  // ANSI background
  char letter;
};
// Distinguishable without colour vision too: they differ in lightness.
constexpr std::array<Colour, 6> kColours = {{
    {"window", {0, 114, 178}, 44, 'w'},
    {"global", {230, 159, 0}, 43, 'g'},
    {"random", {0, 158, 115}, 42, 'r'},
    {"full", {86, 180, 233}, 46, 'x'},
    {"chosen", {204, 121, 167}, 45, 'c'},
    {"approximated", {150, 150, 150}, 47, 'a'},
}};

const Colour& colour_of(std::string_view reason) {
  const auto found = std::ranges::find(kColours, reason, &Colour::reason);
  return found == kColours.end() ? kColours.back() : *found;
}

std::string hex(const Colour& c) {
  return fmt::format("#{:02x}{:02x}{:02x}", c.rgb[0], c.rgb[1], c.rgb[2]);
}

std::string big_endian(std::uint32_t x) {
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
  return big_endian(static_cast<std::uint32_t>(data.size())) + type + data +
         big_endian(crc(type + data));
}

// A zlib stream of stored blocks: a picture of flat squares is small enough as it is.
std::string stored(const std::string& data) {
  constexpr std::size_t kBlock = 65535;
  std::string out = "\x78\x01";
  for (std::size_t at = 0; at < data.size(); at += kBlock) {
    const std::size_t size = std::min(kBlock, data.size() - at);
    const auto low = static_cast<char>(size & 0xFFU);
    const auto high = static_cast<char>(size >> 8U);
    out += at + size == data.size() ? '\1' : '\0';
    out += {low, high, static_cast<char>(~low), static_cast<char>(~high)};
    out += data.substr(at, size);
  }
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  for (const char byte : data) {
    a = (a + static_cast<unsigned char>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return out + big_endian(b << 16U | a);
}

}  // namespace

void Picture::set(std::size_t i, std::size_t j, std::string_view reason) {
  if (reason.empty()) return;
  auto found = std::ranges::find(reasons_, reason);
  if (found == reasons_.end()) found = reasons_.emplace(reasons_.end(), reason);
  cells_[i * length_ + j] = static_cast<std::uint8_t>(1 + (found - reasons_.begin()));
}

std::string_view Picture::reason(std::size_t i, std::size_t j) const {
  const std::uint8_t cell = cells_[i * length_ + j];
  if (cell == 0) return {};
  return reasons_[cell - 1U];
}

std::vector<Picture::Run> Picture::runs(std::size_t i) const {
  std::vector<Run> runs;
  for (std::size_t j = 0; j < length_; ++j) {
    const std::string_view r = reason(i, j);
    if (r.empty()) continue;
    if (!runs.empty() && runs.back().end == j && runs.back().reason == r) {
      ++runs.back().end;
    } else {
      runs.push_back({j, j + 1, std::string(r)});
    }
  }
  return runs;
}

std::map<std::string, std::size_t> Picture::counts() const {
  std::map<std::string, std::size_t> counts;
  for (const std::uint8_t cell : cells_) {
    if (cell != 0) ++counts[reasons_[cell - 1U]];
  }
  return counts;
}

std::string Picture::text(bool colours) const {
  std::string out;
  for (std::size_t i = 0; i < length_; ++i) {
    for (std::size_t j = 0; j < length_; ++j) {
      const std::string_view r = reason(i, j);
      if (r.empty()) {
        out += "·";
      } else if (colours) {
        out += fmt::format("\x1b[{}m \x1b[0m", colour_of(r).terminal);
      } else {
        out += colour_of(r).letter;
      }
    }
    out += '\n';
  }
  for (const auto& [name, pairs] : counts()) {
    const Colour& c = colour_of(name);
    out += colours ? fmt::format("\x1b[{}m \x1b[0m {}", c.terminal, name)
                   : fmt::format("{} {}", c.letter, name);
    out += fmt::format(": {} of {} pairs ({:.1f} %)\n", pairs, length_ * length_,
                       100.0 * static_cast<double>(pairs) / static_cast<double>(length_ * length_));
  }
  return out;
}

std::string Picture::svg(std::string_view title) const {
  constexpr std::size_t kSide = 640;
  constexpr std::size_t kLegend = 24;
  const double cell = static_cast<double>(kSide) / static_cast<double>(length_);
  const auto totals = counts();
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"14\">\n<title>{2}</title>\n"
      "<rect width=\"{0}\" height=\"{0}\" fill=\"#f4f4f4\"/>\n",
      kSide, kSide + kLegend * (1 + totals.size()), title);
  for (std::size_t i = 0; i < length_; ++i) {
    for (const Run& run : runs(i)) {
      out += fmt::format(
          "<rect x=\"{:.3f}\" y=\"{:.3f}\" width=\"{:.3f}\" height=\"{:.3f}\" fill=\"{}\"/>\n",
          static_cast<double>(run.begin) * cell, static_cast<double>(i) * cell,
          static_cast<double>(run.end - run.begin) * cell, cell, hex(colour_of(run.reason)));
    }
  }
  std::size_t y = kSide + kLegend;
  for (const auto& [name, pairs] : totals) {
    out += fmt::format(
        "<rect x=\"4\" y=\"{}\" width=\"14\" height=\"14\" fill=\"{}\"/>"
        "<text x=\"26\" y=\"{}\">{}: {} pairs</text>\n",
        y - 12, hex(colour_of(name)), y, name, pairs);
    y += kLegend;
  }
  return out + "</svg>\n";
}

std::string Picture::png() const {
  // Squares of whole pixels, about 640 in all.
  const std::size_t scale = std::max<std::size_t>(1, 640 / length_);
  const std::size_t side = length_ * scale;
  std::string pixels;
  for (std::size_t i = 0; i < side; ++i) {
    pixels += '\0';  // no filter
    for (std::size_t j = 0; j < side; ++j) {
      const std::string_view r = reason(i / scale, j / scale);
      for (std::size_t c = 0; c < 3; ++c) {
        pixels += static_cast<char>(r.empty() ? 244 : colour_of(r).rgb[c]);
      }
    }
  }
  const std::string size = big_endian(static_cast<std::uint32_t>(side));
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", size + size + std::string("\x08\x02\0\0\0", 5)) +
         chunk("IDAT", stored(pixels)) + chunk("IEND", "");
}

}  // namespace longspan::cli
