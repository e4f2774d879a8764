// Where the parts of gathered chunks lie in the scratch, the same for every instruction set.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "longspan/base/integers.h"
#include "longspan/kernels/sparse/chunk_attention.h"
#include "longspan/kernels/tiled/tile_layout.h"
#include "longspan/kernels/tiled/tiled_attention.h"

namespace longspan {

inline constexpr std::int32_t kHiddenKey = -1;
inline constexpr std::int32_t kBlindQuery = -2;
// Buckets of different rounds are different: the round lies above this bit.
inline constexpr int kRoundShift = 24;

// A group of chunks and its neighbours side by side; rows are tile_pitch apart.
struct GatheredGroup {
  std::size_t slots = 0;
  float* k = nullptr;
  float* v = nullptr;
  float* factor = nullptr;  // f·log₂e
  std::int32_t* token = nullptr;
  std::int32_t* bucket = nullptr;
  std::int32_t* code = nullptr;  // [rounds][slots]
};

// What the masks ask about a query, one entry per lane.
struct ChunkLanes {
  std::int32_t* bucket = nullptr;
  std::int32_t* self = nullptr;   // token that is hidden
  std::int32_t* limit = nullptr;  // last token that is not
  std::int32_t* low = nullptr;    // first slot
  std::int32_t* code = nullptr;   // [rounds][kQueryBlock]
};

// Codes x of a query and y of a key meet if 0 ≤ x + shift − y ≤ width, modulo `circle` if it is not
// 0.
struct MeetingRange {
  std::int32_t shift = 0;
  std::uint32_t width = 0;
  std::int32_t circle = 0;
  float least = 1.0F;  // in place of 0
};
MeetingRange meeting_range(const ChunkedHead& head);

// Chunk number `index` − before of a round in the concatenation of all rounds; false if there is
// none.
bool neighbour(const ChunkLayout& layout, std::size_t round, std::size_t index, std::size_t& at);

// Hands out parts of a scratch; starting from null it counts.
template <class T>
class Parts {
 public:
  explicit Parts(T* memory) : memory_(memory) {}
  T* take(std::size_t count) {
    T* part = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += round_up(count, kTileUnit);
    return part;
  }
  std::size_t used() const { return used_; }

 private:
  T* memory_;
  std::size_t used_ = 0;
};

inline GatheredGroup take_group(const ChunkLayout& l, std::size_t d, std::size_t e,
                                Parts<float>& floats, Parts<std::int32_t>& integers) {
  GatheredGroup g;
  g.slots =
      (std::min(l.group(), std::max<std::size_t>(l.chunks(), 1)) + l.before + l.after) * l.chunk;
  g.k = floats.take(g.slots * tile_pitch(d));
  g.v = floats.take(g.slots * tile_pitch(e));
  g.factor = floats.take(g.slots);
  g.token = integers.take(g.slots);
  g.bucket = integers.take(g.slots);
  g.code = integers.take(g.slots * l.rounds);
  return g;
}

inline ChunkLanes take_lanes(const ChunkLayout& l, Parts<std::int32_t>& integers) {
  ChunkLanes lanes;
  lanes.bucket = integers.take(kQueryBlock);
  lanes.self = integers.take(kQueryBlock);
  lanes.limit = integers.take(kQueryBlock);
  lanes.low = integers.take(kQueryBlock);
  lanes.code = integers.take(kQueryBlock * l.rounds);
  return lanes;
}

}  // namespace longspan
