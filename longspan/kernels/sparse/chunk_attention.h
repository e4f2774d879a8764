// Attention within chunks of an order: tokens are taken in the order of a sort, cut into chunks,
// and the queries of a chunk see the keys of their own chunk and of its neighbours. One head on the
// calling thread.
//
//   s_ij = f_j·q_i·k_j                         over the pairs that the masks leave
//   P_ij = e^(s_ij − L_i)/c_ij                 c_ij: rounds in which i meets j (1 if not wanted)
//   y_i  = Σ_r Σ_j P_ij·v_j,   L_i = log Σ_r Σ_j e^s_ij/c_ij
//
// so that several rounds, each with an order of its own, are one softmax. A round adds to (y, max,
// sum) of every token, the last one divides. Backward needs L alone: with D_i = dy_i·y_i
//
//   dP = dy·vᵀ,  dS = P⊙(dP − D),  dv_j += Σ_i P_ij·dy_i
//   dq_i += Σ_j dS_ij·f_j·k_j,     g_j = Σ_i dS_ij·f_j·q_i
//
// and g_j is the gradient of k_j where f is constant. Keys that are normalised queries, k_j = q_j
// and f_j = f(‖q_j‖), have dq_j += g_j − κ_j·(q_j·g_j)·q_j instead.
//
// Queries lie in the vector lanes as in tiled_attention.h. Where a mask leaves only tokens of the
// same bucket, the rest of a chunk is skipped by groups of lanes; it is counted all the same,
// because how much it is depends on the data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "longspan/base/choice.h"
#include "longspan/base/integers.h"
#include "longspan/base/view.h"

namespace longspan {

// What the chunk before the first one of a round is.
enum class Wrap : std::uint8_t {
  kNone,   // nothing
  kRound,  // the round's last chunk
  kAll,    // the last chunk of the round before, circular over all rounds
};
constexpr Names<3> names_of(Wrap /*kind*/) {
  return {"reformer", "wrap", {"none", "round", "all"}};
}

struct ChunkLayout {
  std::size_t tokens = 0;  // in the order of a round
  std::size_t chunk = 64;  // tokens per chunk; the last may be shorter
  std::size_t before = 1;  // neighbours that are seen
  std::size_t after = 0;
  std::size_t rounds = 1;
  Wrap wrap = Wrap::kNone;

  std::size_t chunks() const { return divide_up(tokens, chunk); }
  std::size_t seen() const { return before + 1 + after; }
  // Chunks that a call takes: enough to share their neighbours, few enough for the cache.
  std::size_t group() const { return chunk >= 256 ? 1 : 256 / chunk; }
  std::size_t groups() const { return (chunks() + group() - 1) / group(); }
  // Pairs of tokens that share a window, in one round.
  std::uint64_t pairs() const;
  // Tokens that the groups of a round read, those of neighbours once more for each group.
  std::uint64_t gathered() const;
  // Backward runs in phases: the groups of one phase share no token. Neighbours are in different
  // ones, and where chunks wrap around, groups at the ends have one each.
  std::size_t phases() const;
  std::size_t phase(std::size_t group_index) const;
};

struct ChunkedHead {
  ConstMatrix q;                         // [n, d]
  ConstMatrix k;                         // [n, d]; the same as q if they are shared
  ConstMatrix v;                         // [n, e]
  const float* factor = nullptr;         // f, [n]
  const std::int32_t* order = nullptr;   // [rounds][tokens]
  const std::int32_t* bucket = nullptr;  // [rounds][n], only equal ones meet; null = all meet
  const std::int32_t* code = nullptr;    // [rounds][n] of meeting_codes; null = c is 1
  ChunkLayout layout;
  std::size_t real = 0;       // tokens from here on are padding, which nobody sees
  bool blind_padding = true;  // and which sees nobody
  bool causal = false;        // by the tokens' numbers
  bool sees_self = false;     // else a token sees itself if it sees nobody else in any round: y = v
  std::size_t reach = 0;      // places back in the order that a query sees at most; 0 = no limit
};

// Numbers whose difference says whether two tokens meet in the round: places or chunks, spread by
// the bucket where only equal buckets meet. Fills row `round` of `code`.
void meeting_codes(const ChunkedHead& head, std::size_t round, std::int32_t* code);

// What one token sees in all rounds together: the keys, as often as rounds have them, and −ln c of
// each, which joins the score. `places` is where the token lies in the order of each round.
struct ChunkRow {
  std::int32_t* tokens = nullptr;  // row_keys(layout) elements
  float* bias = nullptr;           // the same number
  std::size_t count = 0;
};
// Keys of a row at most.
std::size_t row_keys(const ChunkLayout& layout);
void find_row(const ChunkedHead& head, std::size_t token, const std::int32_t* places,
              ChunkRow& row);

// Floats and integers of scratch that a call takes.
struct ChunkScratch {
  std::size_t floats;
  std::size_t integers;
};
ChunkScratch chunk_forward_scratch(const ChunkLayout& layout, std::size_t d, std::size_t e);
ChunkScratch chunk_backward_scratch(const ChunkLayout& layout, std::size_t d, std::size_t e);

// What ran; a cache line of its own for each worker.
struct alignas(64) ChunkCounts {
  std::uint64_t queries = 0;
  std::uint64_t pairs = 0;
  std::uint64_t gathered = 0;

  ChunkCounts& operator+=(const ChunkCounts& o) {
    queries += o.queries;
    pairs += o.pairs;
    gathered += o.gathered;
    return *this;
  }
};

// The running softmax of a head's tokens.
struct ChunkState {
  Matrix y;              // [n, e]
  float* max = nullptr;  // [n]; after the last round L (base 2), ∞ where nobody was seen
  float* sum = nullptr;  // [n]
};

// Group `group` of round `round`; rounds in order.
void chunk_forward(const ChunkedHead& head, std::size_t round, std::size_t group,
                   const ChunkState& state, float* floats, std::int32_t* integers,
                   ChunkCounts& counts);

struct ChunkGradient {
  ConstMatrix dy;                // [n, e]
  const float* lse = nullptr;    // L, [n]
  const float* delta = nullptr;  // D, [n]
  const float* kappa = nullptr;  // κ, [n]; null: f is constant
  Matrix dq;                     // all added to; dk may be dq
  Matrix dk;
  Matrix dv;
};

// Adds to the gradients of the group's tokens and of their neighbours, so neighbouring groups must
// not run at once.
void chunk_backward(const ChunkedHead& head, const ChunkGradient& gradient, std::size_t round,
                    std::size_t group, float* floats, std::int32_t* integers, ChunkCounts& counts);

}  // namespace longspan
