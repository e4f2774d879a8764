// A picture as a file: axes that count tokens, the grid, the legend.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "picture.h"
#include "png.h"

namespace longspan::cli {

namespace {

constexpr std::size_t kSide = 640;  // pixels of the grid, about
constexpr std::size_t kLeft = 84;   // before it
constexpr std::size_t kTop = 64;    // above it
constexpr std::size_t kRight = 24;
constexpr std::size_t kLine = 22;  // of the legend
constexpr std::size_t kTicks = 4;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

// What stands in the margins, in the words of neither format.
struct Margins {
  struct Tick {
    std::size_t cell;
    std::string label;
  };
  std::vector<Tick> ticks;
  std::vector<std::pair<CellColour, std::string>> legend;
  std::string sampling;

  explicit Margins(const Picture& picture) : sampling(picture.sampling()) {
    for (std::size_t t = 0; t <= std::min(kTicks, picture.cells()); ++t) {
      const std::size_t cell = t * picture.cells() / std::min(kTicks, picture.cells());
      ticks.push_back({cell, fmt::format("{}", picture.token(cell))});
    }
    for (const auto& [cell, count] : picture.counts()) {
      legend.emplace_back(colour_of(picture.reason(cell), cell.weight),
                          picture.legend(cell, count));
    }
  }
  std::size_t height() const { return kLine * (legend.size() + (sampling.empty() ? 1 : 2)); }
};

std::string hex(const CellColour& c) {
  return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue);
}

// The cells of one kind as one path in units of a cell; equal runs below each other are one piece.
std::string path_of(const Picture& picture, Picture::Cell kind) {
  std::string path;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> open;  // run → row where it began
  for (std::size_t i = 0; i <= picture.cells(); ++i) {
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> here;
    for (const Picture::Run& run :
         i < picture.cells() ? picture.runs(i) : std::vector<Picture::Run>{}) {
      if (run.cell != kind) continue;
      const auto before = open.find({run.begin, run.end});
      here[{run.begin, run.end}] = before == open.end() ? i : before->second;
      if (before != open.end()) open.erase(before);
    }
    for (const auto& [run, begin] : open) {
      path += fmt::format("M{} {}h{}v{}h-{}z", run.first, begin, run.second - run.first, i - begin,
                          run.second - run.first);
    }
    open = std::move(here);
  }
  return path;
}

}  // namespace

std::string Picture::svg() const {
  const Margins margins(*this);
  const double scale = static_cast<double>(kSide) / static_cast<double>(cells_);
  const std::size_t width = kLeft + kSide + kRight;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"14\">\n<title>{2}</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
      "<text x=\"{3}\" y=\"18\">{2}</text>\n"
      "<g transform=\"translate({3} {4}) scale({5:.6g})\" shape-rendering=\"crispEdges\">\n"
      "<path fill=\"#f4f4f4\" d=\"M0 0h{6}v{6}h-{6}z\"/>\n",
      width, kTop + kSide + margins.height(), escaped(title_), kLeft, kTop, scale, cells_);
  for (const auto& [kind, count] : counts()) {
    out += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", hex(colour_of(reason(kind), kind.weight)),
                       path_of(*this, kind));
  }
  out += "</g>\n";
  for (const Margins::Tick& tick : margins.ticks) {
    const double at = static_cast<double>(tick.cell) * scale;
    out += fmt::format(
        "<path stroke=\"#000\" d=\"M{0:.1f} {1}v-6M{2} {3:.1f}h-6\"/>"
        "<text x=\"{0:.1f}\" y=\"{4}\" text-anchor=\"middle\">{5}</text>"
        "<text x=\"{6}\" y=\"{7:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft + at, kTop, kLeft, kTop + at, kTop - 10, tick.label, kLeft - 10, kTop + at + 5);
  }
  out += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">key</text>"
      "<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">query</text>\n",
      kLeft + kSide / 2, kTop - 28, kTop + kSide / 2);
  std::size_t y = kTop + kSide + kLine;
  for (const auto& [colour, text] : margins.legend) {
    out += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" fill=\"{}\"/>"
        "<text x=\"{}\" y=\"{}\">{}</text>\n",
        kLeft, y - 12, hex(colour), kLeft + 22, y, escaped(text));
    y += kLine;
  }
  if (!margins.sampling.empty()) {
    out += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kLeft, y, margins.sampling);
  }
  return out + "</svg>\n";
}

std::string Picture::png() const {
  const Margins margins(*this);
  const std::size_t scale = std::max<std::size_t>(1, kSide / cells_);  // whole pixels
  const std::size_t side = cells_ * scale;
  const std::size_t width = kLeft + std::max(side, kSide) + kRight;
  PngImage image(width, kTop + side + margins.height());
  image.fill(kLeft, kTop, side, side, {244, 244, 244});
  for (std::size_t i = 0; i < cells_; ++i) {
    for (const Run& run : runs(i)) {
      image.fill(kLeft + run.begin * scale, kTop + i * scale, (run.end - run.begin) * scale, scale,
                 colour_of(reason(run.cell), run.cell.weight));
    }
  }
  image.write(kLeft, 6, title_);
  for (const Margins::Tick& tick : margins.ticks) {
    const std::size_t at = tick.cell * scale;
    const std::size_t wide = PngImage::width_of(tick.label);
    image.fill(kLeft + at, kTop - 6, 1, 6, {});
    image.fill(kLeft - 6, kTop + at, 6, 1, {});
    image.write(kLeft + at - std::min(kLeft, wide / 2), kTop - 20, tick.label);
    image.write(kLeft - std::min(kLeft, wide + 10), kTop + at - 5, tick.label);
  }
  image.write(kLeft + side / 2 - PngImage::width_of("key") / 2, kTop - 38, "key");
  image.write(4, kTop + side / 2 - 5, "query");
  std::size_t y = kTop + side + kLine / 2;
  for (const auto& [colour, text] : margins.legend) {
    image.fill(kLeft, y, 12, 12, colour);
    image.write(kLeft + 20, y + 1, text);
    y += kLine;
  }
  image.write(kLeft, y + 1, margins.sampling);
  return image.bytes();
}

}  // namespace longspan::cli
