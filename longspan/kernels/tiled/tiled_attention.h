// Exact attention by tiles: the arithmetic of one head, on the calling thread.
//
// 64 queries lie side by side in the vector lanes, so that keys and values are read as broadcast
// scalars from their own layout and neither maximum nor sum needs a horizontal step:
//
//   Sᵀ = K·(Q·log₂e/√d)ᵀ                    64 keys × 64 queries
//   m' = max(m, max_j S),  c = 2^(m−m')
//   Pᵀ = 2^(Sᵀ − m'),      ℓ = c·ℓ + Σ_j P
//   Oᵀ = c·Oᵀ + Vᵀ·Pᵀ                       e × 64 queries
//   y  = O/ℓ,              L = m + log₂ ℓ   (base 2)
//
// Backward recomputes P = 2^(S − L) and, with D_i = dy_i·y_i and s = 1/√d:
//
//   dPᵀ = V·dyᵀ,  dS = P⊙(dP − D),  dV += Pᵀ·dy,  dK += s·dSᵀ·Q,  dQᵀ += s·Kᵀ·dSᵀ
//
// A score that overflows counts as the largest float, so that finite tensors give finite outputs; a
// query whose scores are all −∞ sees nothing. NaN stays NaN.
//
// Tiles that no query of the block can see are skipped, within a tile also groups of lanes. What
// was executed is counted tile by tile, for real queries and keys: lanes that pad a tile are not
// work.
#pragma once

#include <cstddef>
#include <cstdint>

#include "longspan/base/random.h"
#include "longspan/base/view.h"

namespace longspan {

inline constexpr std::size_t kQueryBlock = 64;  // queries in the lanes of a tile
inline constexpr std::size_t kKeyBlock = 64;    // keys of a tile
inline constexpr std::size_t kQueryGroup = 16;  // query blocks that can share a pass over the keys
inline constexpr std::size_t kFewQueries = 6;   // up to here lanes of queries do not pay
inline constexpr std::size_t kKeyPass = 512;    // keys that share a backward pass over the queries

// One head of one sequence.
struct TiledHead {
  ConstMatrix q;         // [m, d]
  ConstMatrix k;         // [n, d]
  ConstMatrix v;         // [n, e]
  std::size_t keys = 0;  // the first `keys` of n are real
  bool causal = false;   // query i sees keys j ≤ i + n − m
  float scale = 1.0F;
  const float* bias = nullptr;  // [m, n], null if there is none
  std::size_t bias_stride = 0;
  const std::uint8_t* visible = nullptr;  // [m, n], null if there is none
  std::size_t visible_stride = 0;
  Dropout dropout;
  std::uint32_t plane = 0;

  // Query i sees the keys [0, end).
  std::size_t end(std::size_t i) const {
    if (!causal) return keys;
    const std::size_t last = i + 1 + k.rows > q.rows ? i + 1 + k.rows - q.rows : 0;
    return last < keys ? last : keys;
  }
};

// What ran; a cache line of its own for each worker.
struct alignas(64) TileCounts {
  std::uint64_t queries = 0;       // read, scaled and finished
  std::uint64_t pairs = 0;         // query × key
  std::uint64_t query_tiles = 0;   // query × tile of kKeyBlock keys
  std::uint64_t query_passes = 0;  // query × pass of kKeyPass keys (backward)
  // Keys whose gradient was written (backward); of lists of keys: pairs with terms of the distance.
  std::uint64_t keys = 0;
  std::uint64_t partials = 0;           // rows added from partial sums
  std::uint64_t table = 0;              // query × bucket of a table of distances
  std::uint64_t relative_partials = 0;  // elements added from partial gradients of such tables

  TileCounts& operator+=(const TileCounts& o) {
    queries += o.queries;
    pairs += o.pairs;
    query_tiles += o.query_tiles;
    query_passes += o.query_passes;
    keys += o.keys;
    partials += o.partials;
    table += o.table;
    relative_partials += o.relative_partials;
    return *this;
  }
  friend TileCounts operator*(std::uint64_t times, const TileCounts& o) {
    TileCounts c = o;
    for (std::uint64_t* x : {&c.queries, &c.pairs, &c.query_tiles, &c.query_passes, &c.keys,
                             &c.partials, &c.table, &c.relative_partials}) {
      *x *= times;
    }
    return c;
  }
};

// Floats of scratch, aligned to 64 bytes, that a call needs.
std::size_t tiled_forward_scratch(std::size_t d, std::size_t e);
std::size_t tiled_backward_scratch(std::size_t d, std::size_t e);

// y[i] and L[i] of the queries [first, first + count), at most kQueryGroup blocks; `lse` starts at
// query 0 and may be null.
void tiled_forward(const TiledHead& head, std::size_t first, std::size_t count, Matrix y,
                   float* lse, float* scratch, TileCounts& counts);

// The same for all of at most kFewQueries queries, with the lanes along d and e, over the keys from
// first_key on, a multiple of kKeyBlock. L of a query that sees none of them is ∞.
void tiled_forward_few(const TiledHead& head, std::size_t first_key, Matrix y, float* lse,
                       float* scratch, TileCounts& counts);

struct TiledGradient {
  ConstMatrix dy;                // [m, e]
  const float* lse = nullptr;    // L, [m]
  const float* delta = nullptr;  // D, [m]
  Matrix dq;                     // [m, d], added to
  float* dbias = nullptr;        // [m, n], added to; null if it is not wanted
  std::size_t dbias_stride = 0;
};

// D[i] = dy_i·y_i.
void tiled_delta(ConstMatrix y, ConstMatrix dy, float* delta);

// A pass over `count` ≤ kKeyPass keys from `first` (a multiple of kKeyPass): clear once, add each
// head that reads these keys, store their gradients once. The scratch carries the sums.
void tiled_backward_clear(std::size_t count, std::size_t d, std::size_t e, float* scratch);
void tiled_backward_add(const TiledHead& head, const TiledGradient& gradient, std::size_t first,
                        float* scratch, TileCounts& counts);
void tiled_backward_store(float scale, const float* scratch, Matrix dk, Matrix dv,
                          TileCounts& counts);

}  // namespace longspan
