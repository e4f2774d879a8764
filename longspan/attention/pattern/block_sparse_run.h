// Shared by the two directions of block_sparse.h; nothing else includes it.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "longspan/attention/pattern/block_sparse.h"
#include "longspan/base/integers.h"
#include "longspan/base/parallel.h"

namespace longspan::detail {

// A worker's share of the scratch.
struct Room {
  std::span<KeyRange> ranges;
  float* memory;
};

class Rooms {
 public:
  Rooms(const BlockPattern& pattern, std::size_t floats, Arena& arena)
      : most_(pattern.most_ranges()),
        floats_(floats),
        ranges_(arena.take<KeyRange>(workers() * most_)),
        memory_(arena.take(workers() * floats)),
        counts_(arena.take<TileCounts>(workers())) {
    std::ranges::fill(counts_, TileCounts{});
  }
  static std::size_t bytes(const BlockPattern& pattern, std::size_t floats) {
    return Arena::bytes_for<KeyRange>(workers() * pattern.most_ranges()) +
           Arena::bytes_for(workers() * floats) + Arena::bytes_for<TileCounts>(workers());
  }
  Room at(std::size_t worker) const {
    return {ranges_.subspan(worker * most_, most_), memory_.data() + worker * floats_};
  }
  TileCounts& counts(std::size_t worker) const { return counts_[worker]; }
  TileCounts total() const {
    TileCounts sum;
    for (const TileCounts& c : counts_) sum += c;
    return sum;
  }

 private:
  std::size_t most_;
  std::size_t floats_;
  std::span<KeyRange> ranges_;
  std::span<float> memory_;
  std::span<TileCounts> counts_;
};

// Every `step`-th row from `first` on.
template <class T>
MatrixView<T> every(MatrixView<T> x, std::size_t first, std::size_t step) {
  if (step == 1) return x;
  const std::size_t rows = first < x.rows ? divide_up(x.rows - first, step) : 0;
  return {x.data + first * x.stride, rows, x.cols, x.stride * step};
}

// Keys and values, head by head. Where they are read often they are copied, some heads at a time,
// to where the rows of a head are next to each other: among those of 8 heads they would share an
// eighth of the cache's sets.
class KeyPlanes {
 public:
  KeyPlanes(const BlockPattern& pattern, const SparseInputs& in, Arena& arena);
  static std::size_t bytes(const BlockPattern& pattern);

  // Calls f(first, count) with all of the batch·kv_heads key heads, those that are there at a time.
  template <class F>
  void for_each(const F& f) {
    const std::size_t planes = in_.k.batch * in_.k.heads;
    for (std::size_t first = 0; first < planes; first += most_) {
      const std::size_t count = std::min(most_, planes - first);
      fetch(first, count);
      f(first, count);
    }
  }
  ConstMatrix k(std::size_t plane) const { return head(in_.k, plane, 0); }
  ConstMatrix v(std::size_t plane) const { return head(in_.v, plane, in_.k.d); }

 private:
  static std::size_t floats(const BlockPattern& pattern);  // of a head; 0: no copy
  static std::size_t at_a_time(const BlockPattern& pattern);
  void fetch(std::size_t first, std::size_t count);
  ConstMatrix head(const ConstHeads& x, std::size_t plane, std::size_t before) const;

  const SparseInputs& in_;
  std::size_t most_;
  std::span<float> memory_;
  std::size_t first_ = 0;
};

// The geometry of a tile's head: what counting needs, without tensors.
SparseHead geometry(const BlockPattern& pattern, std::size_t b, std::size_t h,
                    const PatternTile& tile);
SparseHead sparse_head(const BlockPattern& pattern, const SparseInputs& in, const KeyPlanes& keys,
                       std::size_t b, std::size_t h, const PatternTile& tile);

// L and D of the queries of a tile. Those of a dilated head are not contiguous, so that they are
// copied to and from `room`.
class LaneValues {
 public:
  LaneValues(const SparseHead& head, const QueryTile& tile) : head_(head), tile_(tile) {}
  const float* read(const float* plane) {
    if (head_.dilation == 1) return plane + tile_.first;
    for (std::size_t i = 0; i < tile_.lanes; ++i) room_[i] = plane[row(i)];
    return room_.data();
  }
  // Where to write; null if there is no plane.
  float* target(float* plane) {
    if (plane == nullptr) return nullptr;
    return head_.dilation == 1 ? plane + tile_.first : room_.data();
  }
  void write(float* plane) const {
    if (plane == nullptr || head_.dilation == 1) return;
    for (std::size_t i = 0; i < tile_.lanes; ++i) plane[row(i)] = room_[i];
  }

 private:
  std::size_t row(std::size_t lane) const {
    return head_.first_query + (tile_.first + lane) * head_.dilation;
  }
  const SparseHead& head_;
  const QueryTile& tile_;
  std::array<float, kQueryBlock> room_{};
};

// Ranges for counting, which has no arena; kept from call to call.
std::span<KeyRange> counting_room(std::size_t most);

// What counts of the relative terms depend on.
struct RelativeCounts {
  std::size_t terms = 0;
  std::size_t width = 0;  // of a row of T

  static RelativeCounts of(const RelativeSizes& relative, const AttentionShape& s) {
    return {(relative.table > 0 ? 1U : 0U) + (relative.keys > 0 ? 1U : 0U) +
                (relative.columns ? 1U : 0U),
            relative.width > 0 ? relative.width : s.d};
  }
  static RelativeCounts of(const RelativePlanes& relative) {
    return {relative.terms(), relative.table.d};
  }
};

// What backward adds to a cost, given what forward counted.
void add_backward_cost(const BlockPattern& pattern, const RelativeSizes& relative,
                       const TileCounts& forward, AttentionCost& cost);

}  // namespace longspan::detail
