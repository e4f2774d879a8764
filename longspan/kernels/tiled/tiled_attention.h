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
// Before the softmax the scores may get a bias of the distance and a cap:
//
//   S ← S + d_{p(i)−j},   S ← c·tanh(S/c),   dS ← dS·(1 − tanh²)    p(i) = i + n − m
//
// and a sink is a key of score σ without a value: m starts at σ and ℓ at 1 instead of nothing.
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
#include <limits>

#include "longspan/base/random.h"
#include "longspan/base/view.h"

namespace longspan {

inline constexpr std::size_t kQueryBlock = 64;  // queries in the lanes of a tile
inline constexpr std::size_t kKeyBlock = 64;    // keys of a tile
inline constexpr std::size_t kQueryGroup = 16;  // query blocks that can share a pass over the keys
inline constexpr std::size_t kFewQueries = 6;   // up to here lanes of queries do not pay
inline constexpr std::size_t kKeyPass = 512;    // keys that share a backward pass over the queries
inline constexpr std::size_t kAnyDistance = std::numeric_limits<std::size_t>::max();
inline constexpr float kNoSink = -std::numeric_limits<float>::infinity();

// One head of one sequence.
struct TiledHead {
  ConstMatrix q;         // [m, d]
  ConstMatrix k;         // [n, d]
  ConstMatrix v;         // [n, e]
  std::size_t keys = 0;  // the first `keys` of n are real
  bool causal = false;   // query i sees keys j ≤ p(i) = i + n − m
  // How many keys before and after its own place a query sees. With bounds, or distances, m ≤ n.
  std::size_t before = kAnyDistance;
  std::size_t after = kAnyDistance;
  float scale = 1.0F;
  float cap = 0.0F;                  // c; 0: none
  float sink = kNoSink;              // σ·log₂e
  const float* distances = nullptr;  // d·log₂e of r = 1 − m … n − 1 + kQueryBlock, from r = 0 on
  const float* bias = nullptr;  // [m, n], null if there is none
  std::size_t bias_stride = 0;
  const std::uint8_t* visible = nullptr;  // [m, n], null if there is none
  std::size_t visible_stride = 0;
  Dropout dropout;
  std::uint32_t plane = 0;

  // Query i sees the keys [begin, end), none where these cross.
  std::size_t begin(std::size_t i) const {
    return before == kAnyDistance || place(i) < before ? 0 : place(i) - before;
  }
  std::size_t place(std::size_t i) const { return i + k.rows - q.rows; }
  std::size_t end(std::size_t i) const {
    if (!looks_ahead_less()) return keys;
    const std::size_t last = i + 1 + k.rows > q.rows ? i + 1 + k.rows - q.rows + ahead() : 0;
    return last < keys ? last : keys;
  }
  // Whether later keys are hidden, and how many are not.
  bool looks_ahead_less() const { return causal || after != kAnyDistance; }
  std::size_t ahead() const { return causal ? 0 : after; }
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
  std::uint64_t table = 0;              // query, or key, × bucket of a table of distances
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
  float* ddistances = nullptr;  // of d, laid out as it is, added to; null if it is not wanted
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
