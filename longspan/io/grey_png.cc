#include "longspan/io/grey_png.h"

#include <png.h>

#include <string>

#include "longspan/base/error.h"
#include "longspan/io/file.h"

namespace longspan {

namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";

// The signature and the chunks that are critical: those whose names begin with a capital.
std::string critical_chunks(std::string_view source, std::string_view bytes) {
  require(bytes.starts_with(kPngSignature), "[png] {}: is no PNG file", source);
  std::string kept(kPngSignature);
  for (std::size_t at = kPngSignature.size(); at < bytes.size();) {
    constexpr std::size_t kAround = 12;  // length, name and checksum
    require(bytes.size() - at >= kAround, "[png] {}: ends within a chunk", source);
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      length = length << 8U | static_cast<unsigned char>(bytes[at + i]);
    }
    require(length <= bytes.size() - at - kAround,
            "[png] {}: a chunk of {} bytes at byte {}; the file is too short", source, length, at);
    const bool critical = (static_cast<unsigned char>(bytes[at + 4]) & 0x20U) == 0;
    if (critical) kept += bytes.substr(at, length + kAround);
    if (bytes.substr(at + 4, 4) == "IEND") return kept;
    at += length + kAround;
  }
  throw Error(fmt::format("[png] {}: ends without IEND; the file is truncated", source));
}

// libpng's image, freed whatever happens.
struct PngReading {
  PngReading() { image.version = PNG_IMAGE_VERSION; }
  ~PngReading() { png_image_free(&image); }
  PngReading(const PngReading&) = delete;
  PngReading& operator=(const PngReading&) = delete;

  png_image image{};
};

}  // namespace

GreyImage grey_png(std::string_view source, std::string_view bytes) {
  const std::string critical = critical_chunks(source, bytes);
  PngReading reading;
  png_image& image = reading.image;
  const bool begun =
      png_image_begin_read_from_memory(&image, critical.data(), critical.size()) != 0;
  require(begun, "[png] {}: {}", source, printable(image.message));
  require(image.width <= kMostPngSide && image.height <= kMostPngSide,
          "[png] {}: {}x{} pixels; need at most {} a side", source, image.width, image.height,
          kMostPngSide);
  image.format = PNG_FORMAT_GRAY;
  GreyImage grey{.width = image.width, .height = image.height, .pixels = {}};
  grey.pixels.resize(grey.width * grey.height);
  const png_color black{};
  const bool read = png_image_finish_read(&image, &black, grey.pixels.data(), 0, nullptr) != 0;
  require(read, "[png] {}: {}", source, printable(image.message));
  return grey;
}

}  // namespace longspan
