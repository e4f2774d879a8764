#include "longspan/attention/window_pattern.h"

#include <algorithm>

namespace longspan {

namespace {

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

// The tokens of [first, last) that belong to a phase.
std::size_t rows(std::size_t first, std::size_t last, std::size_t step, std::size_t phase) {
  const auto below = [&](std::size_t end) {
    return end > phase ? divide_up(end - phase, step) : 0;
  };
  return below(last) - below(first);
}

}  // namespace

std::size_t WindowPattern::tiles_of(std::size_t b, std::size_t step, std::size_t phase) const {
  return divide_up(rows(offset(), offset() + queries(b), step, phase), kQueryBlock);
}

std::size_t WindowPattern::tiles(std::size_t b, std::size_t h) const {
  std::size_t total = 0;
  for (std::size_t phase = 0; phase < dilation(h); ++phase)
    total += tiles_of(b, dilation(h), phase);
  return total;
}

PatternTile WindowPattern::tile(std::size_t b, std::size_t h, std::size_t t,
                                std::span<KeyRange> room) const {
  const std::size_t step = dilation(h);
  PatternTile result;
  std::size_t& phase = result.phase;
  for (; t >= tiles_of(b, step, phase); ++phase) t -= tiles_of(b, step, phase);
  QueryTile& tile = result.tile;
  tile.first = t * kQueryBlock;
  tile.lanes =
      std::min(kQueryBlock, rows(offset(), offset() + queries(b), step, phase) - tile.first);
  const std::size_t position = rows(0, offset(), step, phase) + tile.first;
  const std::size_t begin = position - std::min(position, before_);
  const std::size_t end = std::min(position + tile.lanes + after_, rows(0, keys(b), step, phase));
  room[0] = {begin, end, KeyRange::Kind::kBanded};
  tile.ranges = room.first(1);
  return result;
}

}  // namespace longspan
