#include "picture.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "longspan/report/lines.h"
#include "terminal.h"

namespace longspan::cli {

namespace {

struct Paint {
  std::string_view reason;
  CellColour rgb;
  int terminal;  // ANSI foreground; 10 more is the background
  char letter;
};
// Distinguishable without colour vision too: they differ in lightness.
constexpr std::array<Paint, 6> kPaints = {{
    {"window", {0, 114, 178}, 34, 'w'},
    {"global", {230, 159, 0}, 33, 'g'},
    {"random", {0, 158, 115}, 32, 'r'},
    {"full", {86, 180, 233}, 36, 'x'},
    {"chosen", {204, 121, 167}, 35, 'c'},
    {"approximated", {150, 150, 150}, 37, 'a'},
}};

const Paint& paint_of(std::string_view reason) {
  const auto found = std::ranges::find(kPaints, reason, &Paint::reason);
  return found == kPaints.end() ? kPaints.back() : *found;
}

std::string drawn(std::string_view reason, Weight weight, bool colours) {
  const Paint& paint = paint_of(reason);
  if (!colours) {
    const bool capital = weight == Weight::kAbove;
    return {capital ? static_cast<char>(std::toupper(paint.letter)) : paint.letter};
  }
  if (weight == Weight::kBelow) return fmt::format("\x1b[{}m:\x1b[0m", paint.terminal);
  return fmt::format("\x1b[{}m \x1b[0m", paint.terminal + 10);
}

}  // namespace

CellColour colour_of(std::string_view reason, Weight weight) {
  CellColour c = paint_of(reason).rgb;
  if (weight != Weight::kBelow) return c;
  const auto paler = [](std::uint8_t x) { return static_cast<std::uint8_t>(255 - (255 - x) / 3); };
  return {paler(c.red), paler(c.green), paler(c.blue)};
}

Picture::Picture(std::string title, std::size_t tokens, std::size_t cells)
    : title_(std::move(title)),
      tokens_(tokens),
      cells_(std::min(tokens, cells)),
      grid_(cells_ * cells_) {}

std::size_t Picture::token(std::size_t cell) const {
  // In two parts: the product of cell and tokens need not fit 64 bits.
  return cell * (tokens_ / cells_) + cell * (tokens_ % cells_) / cells_;
}

void Picture::set(std::size_t i, std::size_t j, std::string_view reason, Weight weight) {
  if (reason.empty()) return;
  auto found = std::ranges::find(reasons_, reason);
  if (found == reasons_.end()) found = reasons_.emplace(reasons_.end(), reason);
  grid_[i * cells_ + j] = {static_cast<std::uint8_t>(1 + (found - reasons_.begin())), weight};
}

std::vector<Picture::Run> Picture::runs(std::size_t i) const {
  std::vector<Run> runs;
  for (std::size_t j = 0; j < cells_; ++j) {
    const Cell at = cell(i, j);
    if (at.reason == 0) continue;
    if (!runs.empty() && runs.back().end == j && runs.back().cell == at) {
      ++runs.back().end;
    } else {
      runs.push_back({j, j + 1, at});
    }
  }
  return runs;
}

std::map<Picture::Cell, std::size_t> Picture::counts() const {
  std::map<Cell, std::size_t> counts;
  for (const Cell& cell : grid_) {
    if (cell.reason != 0) ++counts[cell];
  }
  return counts;
}

std::string Picture::legend(Cell cell, std::size_t count) const {
  constexpr std::array<std::string_view, 3> kWeights = {"", ", below the mean", ", above the mean"};
  std::string name =
      fmt::format("{}{}", reason(cell), kWeights[static_cast<std::size_t>(cell.weight)]);
  // Queries and keys are the same sample, which has more of the diagonal than the whole has.
  if (sampled()) return name;
  const std::size_t all = cells_ * cells_;
  const double share = 100.0 * static_cast<double>(count) / static_cast<double>(all);
  return fmt::format("{}: {} of {} pairs ({:.1f} %)", name, count, all, share);
}

std::string Picture::sampling() const {
  if (!sampled()) return "";
  return fmt::format("sampled: {} of {} tokens, one in {:.4g}", cells_, tokens_,
                     static_cast<double>(tokens_) / static_cast<double>(cells_));
}

std::string Picture::text(bool colours) const {
  const std::string_view unseen = has_unicode() ? "·" : ".";
  std::string out;
  for (std::size_t i = 0; i < cells_; ++i) {
    for (std::size_t j = 0; j < cells_; ++j) {
      const Cell at = cell(i, j);
      out += at.reason == 0 ? std::string(unseen) : drawn(reason(at), at.weight, colours);
    }
    out += '\n';
  }
  const std::size_t width = terminal_width(STDOUT_FILENO);
  for (const auto& [cell, count] : counts()) {
    out += drawn(reason(cell), cell.weight, colours) + ' ' +
           broken(legend(cell, count), width, 2, 2) + '\n';
  }
  if (sampled()) out += broken(sampling(), width, 2) + '\n';
  return out;
}

}  // namespace longspan::cli
