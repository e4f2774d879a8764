// Attention by features on whole tensors: how the work is cut, what is kept, what it costs.
//
// Without a mask the keys are cut into parts that have a state each, merged in order; the queries
// then read it. Causal sequences are scanned in blocks: every part but the last first adds up its
// keys alone, the sums before a part are merged in order, and the parts then run side by side.
// Backward runs the scan again for dq and a reverse scan for dk and dv. The number of parts follows
// from the shape alone.
//
// Counts per head, with M features of d inputs, e values; P_x the work of Ω·x, φ_q and φ_k that of
// the maps (feature_map.h), p the visible pairs inside blocks, b blocks, c parts (per key head):
//
//   forward   MACCs   queries·M·(e + 1) + keys·M·e + p·(M + e)
//             add     keys·M + p                     sums of φ and of weights
//             feature queries·(e + 1)                division
//                     b·M·(e + 3)                    kExp: raising c; a factor of 1 is skipped
//             and P_q, φ_q per query, P_k, φ_k per key; keys of all parts but the last count twice
//             if causal
//   backward  MACCs   queries·(M·(e + 1) + e) for dq; queries·M·(e + 1) for R and w;
//                     keys·2·M·e for dk and dv; p·(e + M) with dq, p·2·(e + M) with dk and dv
//             and P, φ of queries and keys again (twice if causal), and P, φ' for their gradients
#pragma once

#include <cstdint>
#include <span>

#include "longspan/base/arena.h"
#include "longspan/base/meter.h"
#include "longspan/kernels/feature/feature_attention.h"

namespace longspan {

struct FeatureShape {
  std::size_t batch = 1;
  std::size_t heads = 1;
  std::size_t kv_heads = 1;
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t d = 0;
  std::size_t e = 0;
  bool causal = false;  // query i sees keys j ≤ i + n − m
  std::span<const std::int32_t> key_lengths;

  std::size_t keys(std::size_t b) const {
    return key_lengths.empty() ? n : static_cast<std::size_t>(key_lengths[b]);
  }
};

struct FeatureTensors {
  ConstHeads q;
  ConstHeads k;
  ConstHeads v;
  bool causal = false;
  std::span<const std::int32_t> key_lengths;

  FeatureShape shape() const {
    return {q.batch, q.heads, k.heads, q.n, k.n, q.d, v.d, causal, key_lengths};
  }
};

struct FeatureCost {
  Work forward;
  Work backward;
  std::size_t saved = 0;  // floats
  std::size_t forward_scratch = 0;
  std::size_t backward_scratch = 0;
};
FeatureCost feature_cost(const FeatureMap& map, const FeatureShape& shape);

// Metered; `saved` may be empty.
void feature_forward(const FeatureMap& map, const FeatureTensors& in, Heads y,
                     std::span<float> saved, Arena& arena);
void feature_backward(const FeatureMap& map, const FeatureTensors& in, ConstHeads y, ConstHeads dy,
                      std::span<const float> saved, Heads dq, Heads dk, Heads dv, Arena& arena);

// New tokens read and join the state of those before them; zeros are the state of none.
std::size_t feature_decode_floats(const FeatureMap& map, const FeatureShape& shape);
FeatureCost feature_decode_cost(const FeatureMap& map, const FeatureShape& shape);
void feature_decode(const FeatureMap& map, const FeatureTensors& in, Heads y,
                    std::span<float> state, Arena& arena);

}  // namespace longspan
