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

bool WindowPattern::uncut(std::size_t b) const {
  return next_cut(b, offset()) >= offset() + queries(b);
}

std::array<WindowPattern::Phases, 3> WindowPattern::equal_phases(std::size_t b,
                                                                 std::size_t step) const {
  const std::size_t end = offset() + queries(b);
  // ⌊m/step⌋ queries of each phase, and one more of the m mod step phases from that of the first on.
  const std::size_t first = offset() % step;
  const std::size_t behind = end % step;
  const std::array cuts = {std::size_t{0}, std::min(first, behind), std::max(first, behind), step};
  std::array<Phases, 3> all{};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t count = cuts[i] < cuts[i + 1] ? rows(offset(), end, step, cuts[i]) : 0;
    all[i] = {cuts[i], cuts[i + 1], count};
  }
  return all;
}

std::size_t WindowPattern::tiles(std::size_t b, std::size_t h) const {
  const std::size_t step = dilation(h);
  std::size_t total = 0;
  if (uncut(b)) {
    for (const Phases& equal : equal_phases(b, step)) {
      total += (equal.end - equal.begin) * divide_up(equal.rows, kQueryBlock);
    }
    return total;
  }
  for (std::size_t phase = 0; phase < std::min(step, offset() + queries(b)); ++phase) {
    for_each_piece(b, step, phase, [&](std::size_t first, std::size_t last) {
      total += divide_up(last - first, kQueryBlock);
    });
  }
  return total;
}

WindowPattern::Place WindowPattern::place(std::size_t b, std::size_t step, std::size_t t) const {
  Place place;
  const auto found = [&](std::size_t phase, std::size_t first, std::size_t last) {
    place = {phase, first + t * kQueryBlock, 0};
    place.lanes = std::min(kQueryBlock, last - place.first);
  };
  if (uncut(b)) {
    for (const Phases& equal : equal_phases(b, step)) {
      const std::size_t count = divide_up(equal.rows, kQueryBlock);
      const std::size_t all = (equal.end - equal.begin) * count;
      if (t >= all) {
        t -= all;
        continue;
      }
      const std::size_t phase = equal.begin + t / count;
      t %= count;
      found(phase, 0, equal.rows);
      return place;
    }
  }
  for (std::size_t phase = 0; phase < std::min(step, offset() + queries(b)) && place.lanes == 0;
       ++phase) {
    for_each_piece(b, step, phase, [&](std::size_t first, std::size_t last) {
      if (place.lanes > 0) return;
      const std::size_t count = divide_up(last - first, kQueryBlock);
      if (t >= count) {
        t -= count;
        return;
      }
      found(phase, first, last);
    });
  }
  return place;
}

PatternTile WindowPattern::tile(std::size_t b, std::size_t h, std::size_t t,
                                std::span<KeyRange> room) const {
  const std::size_t step = dilation(h);
  const Place at = place(b, step, t);
  PatternTile result;
  result.phase = at.phase;
  QueryTile& tile = result.tile;
  tile.first = at.first;
  tile.lanes = at.lanes;
  const std::size_t position = rows(0, offset(), step, result.phase) + tile.first;
  const std::size_t begin = position - std::min(position, before_);
  const std::size_t end =
      std::min(position + tile.lanes + after_, rows(0, keys(b), step, result.phase));
  room[0] = {begin, end, KeyRange::Kind::kBanded};
  tile.ranges = room.first(1);
  return result;
}

}  // namespace longspan
