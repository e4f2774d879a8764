#include "longspan/attention/pattern/window_pattern.h"

#include <algorithm>

#include "longspan/base/integers.h"

namespace longspan {

namespace {

// The tokens of [first, last) that belong to a phase.
std::size_t rows(std::size_t first, std::size_t last, std::size_t step, std::size_t phase) {
  const auto below = [&](std::size_t end) {
    return end > phase ? divide_up(end - phase, step) : 0;
  };
  return below(last) - below(first);
}

}  // namespace

template <class F>
void WindowPattern::for_each_piece(std::size_t b, std::size_t step, std::size_t phase, F f) const {
  const std::size_t end = offset() + queries(b);
  for (std::size_t token = offset(); token < end;) {
    const std::size_t cut = std::min(end, next_cut(b, token));
    f(rows(offset(), token, step, phase), rows(offset(), cut, step, phase));
    token = cut;
  }
}

std::size_t WindowPattern::tiles(std::size_t b, std::size_t h) const {
  std::size_t total = 0;
  for (std::size_t phase = 0; phase < dilation(h); ++phase) {
    for_each_piece(b, dilation(h), phase, [&](std::size_t first, std::size_t last) {
      total += divide_up(last - first, kQueryBlock);
    });
  }
  return total;
}

PatternTile WindowPattern::tile(std::size_t b, std::size_t h, std::size_t t,
                                std::span<KeyRange> room) const {
  const std::size_t step = dilation(h);
  PatternTile result;
  QueryTile& tile = result.tile;
  for (std::size_t phase = 0; phase < step && tile.lanes == 0; ++phase) {
    for_each_piece(b, step, phase, [&](std::size_t first, std::size_t last) {
      if (tile.lanes > 0) return;
      const std::size_t count = divide_up(last - first, kQueryBlock);
      if (t >= count) {
        t -= count;
        return;
      }
      result.phase = phase;
      tile.first = first + t * kQueryBlock;
      tile.lanes = std::min(kQueryBlock, last - tile.first);
    });
  }
  const std::size_t position = rows(0, offset(), step, result.phase) + tile.first;
  const std::size_t begin = position - std::min(position, before_);
  const std::size_t end =
      std::min(position + tile.lanes + after_, rows(0, keys(b), step, result.phase));
  room[0] = {begin, end, KeyRange::Kind::kBanded};
  tile.ranges = room.first(1);
  return result;
}

}  // namespace longspan
