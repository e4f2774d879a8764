// How attention by features cuts a shape into blocks and parts, and what it counts. Internal to the
// kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "longspan/base/integers.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/feature/feature_scan.h"
#include "longspan/kernels/tiled/tile_layout.h"

namespace longspan::detail {

// What ran; a cache line of its own for each worker.
struct alignas(64) FeatureCounts {
  std::uint64_t keys = 0;             // φ of a key
  std::uint64_t queries = 0;          // φ of a query
  std::uint64_t shifted = 0;          // keys whose maximum was looked for
  std::uint64_t reads = 0;            // queries that read a state
  std::uint64_t absorbed = 0;         // keys that joined one
  std::uint64_t blocks = 0;           // times a state was raised or lowered
  std::uint64_t merges = 0;           // states merged
  std::uint64_t divisions = 0;        // states divided by their sums
  std::uint64_t pairs = 0;            // query × key inside a block, forward
  std::uint64_t query_pairs = 0;      // likewise for dq
  std::uint64_t key_pairs = 0;        // likewise for dk and dv
  std::uint64_t query_gradients = 0;  // dq
  std::uint64_t key_gradients = 0;    // dk and dv
  std::uint64_t collected = 0;        // queries that joined R and w
  std::uint64_t deltas = 0;           // δ

  FeatureCounts& operator+=(const FeatureCounts& o);
};

// Keys [key, key + keys) and the queries [query, query + queries) at their positions.
struct FeatureRange {
  std::size_t key = 0;
  std::size_t keys = 0;
  std::size_t query = 0;
  std::size_t queries = 0;
  std::size_t seen = 0;  // keys of the block that its first query sees
};

class FeaturePlan {
 public:
  FeaturePlan(const FeatureMap& map, const FeatureShape& shape);
  // New tokens that follow a state: one part.
  static FeaturePlan decoding(const FeatureMap& map, const FeatureShape& shape);

  std::size_t planes() const { return shape_.batch * shape_.heads; }
  std::size_t kv_planes() const { return shape_.batch * shape_.kv_heads; }
  std::size_t group() const { return shape_.heads / shape_.kv_heads; }
  std::size_t blocks() const { return blocks_of(shape_.n); }
  std::size_t query_blocks() const { return blocks_of(shape_.m); }
  // Blocks [first, last) of part `part`.
  std::size_t first_block(std::size_t part) const { return blocks() * part / parts; }
  std::size_t first_query_block(std::size_t part) const {
    return query_blocks() * part / query_parts;
  }
  FeatureRange block(std::size_t b, std::size_t index) const;
  // How many blocks from `index` on, before `last`, have as many keys, queries and pairs.
  std::size_t alike(std::size_t b, std::size_t index, std::size_t last) const;
  // Queries that stand before every key.
  std::size_t blind() const {
    return shape_.causal && shape_.m > shape_.n ? shape_.m - shape_.n : 0;
  }

  // Offsets into `saved`, in floats.
  std::size_t saved_levels() const { return tile_width(planes() * shape_.m); }
  std::size_t saved_states() const { return shape_.causal ? parts - 1 : 1; }  // per key head
  std::size_t saved_tops() const {  // per key head: c at the start of every block and at the end
    return shape_.causal && map_.running() ? (blocks() + 1) * wide : 0;
  }
  std::size_t saved_kept() const { return map_.over_sequence ? 2 * wide : 0; }
  std::size_t saved_shift() const { return map_.kind == FeatureKind::kShifted ? kTileUnit : 0; }
  std::size_t saved_per_plane() const {
    return saved_states() * state + saved_tops() + saved_kept() + saved_shift();
  }
  std::size_t saved() const { return saved_levels() + kv_planes() * saved_per_plane(); }

  FeatureCounts forward_counts() const;
  FeatureCounts backward_counts() const;
  Work forward_work(const FeatureCounts& counts) const;
  Work backward_work(const FeatureCounts& counts) const;
  std::size_t forward_bytes() const;
  std::size_t decode_bytes() const { return forward_bytes() - state_bytes(); }
  std::size_t backward_bytes() const;

  const FeatureShape& shape() const { return shape_; }
  const FeatureMap& map() const { return map_; }

  FeatureSizes sizes;
  // Key heads that a task without mask takes in turns, block by block: heads lie side by side, so
  // that the next one is near when the last one is done.
  std::size_t side = 1;
  std::size_t parts = 1;        // of the keys
  std::size_t query_parts = 1;  // of the queries, in a backward without mask
  std::size_t state = 0;        // floats of a state
  std::size_t wide = 0;         // floats of a line of features

 private:
  static std::size_t blocks_of(std::size_t n) { return divide_up(n, kFeatureBlock); }
  Work features_work(const FeatureCounts& counts) const;
  std::size_t state_bytes() const { return Arena::bytes_for(kv_planes() * parts * state); }

  const FeatureMap& map_;
  FeatureShape shape_;
};

// Reads the positions [first, first + count) of `planes` heads from `plane` on. Where heads lie
// side by side this goes along whole rows, which the CPU foresees, and leaves them in the second
// cache; the rows of one head alone lie too far apart.
void touch_rows(const ConstHeads& x, std::size_t plane, std::size_t planes, std::size_t first,
                std::size_t count);

}  // namespace longspan::detail
