#include "longspan/attention/pattern/longformer_pattern.h"
#include "longspan/base/integers.h"

namespace longspan {

std::size_t LongformerPattern::next_cut(std::size_t b, std::size_t token) const {
  const std::size_t i = globals_.before(b, token);
  if (!shape().causal || i == globals_.of(b).size()) return kNoCut;
  return globals_.of(b)[globals_.run_end(b, i) - 1] + 1;
}

PatternTile LongformerPattern::tile(std::size_t b, std::size_t h, std::size_t t,
                                    std::span<KeyRange> room) const {
  PatternTile result = WindowPattern::tile(b, h, t, room);
  KeyRange band = room[0];
  const std::size_t step = dilation(h);
  std::size_t used = 0;
  for (const std::size_t token : globals_.of(b)) {
    const std::size_t key = token / step;
    if (token % step != result.phase || key < band.begin || key >= band.end) continue;
    if (key > band.begin) room[used++] = {band.begin, key, band.kind};
    band.begin = key + 1;
  }
  if (band.size() > 0) room[used++] = band;
  std::size_t count = globals_.of(b).size();
  if (shape().causal) {
    const std::size_t skipped = (result.phase + step - offset() % step) % step;
    count = globals_.before(b, offset() + skipped + result.tile.first * step);
  }
  if (count > 0) room[used++] = {0, count, KeyRange::Kind::kGathered};
  result.tile.ranges = room.first(used);
  return result;
}

template <class F>
void GlobalPattern::for_each_piece(std::size_t b, F f) const {
  for (std::size_t i = 0; i < queries(b);) {
    const std::size_t last = shape().causal ? globals_.run_end(b, i) : queries(b);
    f(i, last);
    i = last;
  }
}

std::size_t GlobalPattern::tiles(std::size_t b, std::size_t /*h*/) const {
  std::size_t total = 0;
  for_each_piece(b, [&](std::size_t first, std::size_t last) {
    total += divide_up(last - first, kQueryBlock);
  });
  return total;
}

PatternTile GlobalPattern::tile(std::size_t b, std::size_t /*h*/, std::size_t t,
                                std::span<KeyRange> room) const {
  PatternTile result;
  QueryTile& tile = result.tile;
  for_each_piece(b, [&](std::size_t first, std::size_t last) {
    if (tile.lanes > 0) return;
    const std::size_t count = divide_up(last - first, kQueryBlock);
    if (t >= count) {
      t -= count;
      return;
    }
    tile.first = first + t * kQueryBlock;
    tile.lanes = std::min(kQueryBlock, last - tile.first);
  });
  room[0] = {0, keys(b), KeyRange::Kind::kWhole};
  if (shape().causal) {
    const std::size_t token = globals_.of(b)[tile.first];
    room[0] = {0, token + tile.lanes, KeyRange::Kind::kBanded};
    result.shift =
        static_cast<std::ptrdiff_t>(token) - static_cast<std::ptrdiff_t>(tile.first + offset());
  }
  tile.ranges = room.first(1);
  return result;
}

}  // namespace longspan
