// Attention by features: the arithmetic of one head on blocks of tokens, on the calling thread.
//
//   S = Σ_j φ(k_j)·v_jᵀ  (M×e),  z = Σ_j φ(k_j),  y_i = Sᵀφ(q_i) / z·φ(q_i)
//
// 64 tokens lie in the vector lanes, a feature is a row. A causal block reads the state of the
// blocks before it and its own keys as a masked product, W = φ(Q)·φ(K)ᵀ:
//
//   y_i = (Sᵀφ(q_i) + Σ_{j≤i} W_ij·v_j) / (z·φ(q_i) + Σ_{j≤i} W_ij)
//
// Exponential features are never taken as they are. With u = log φ the state keeps, per feature m,
// a running maximum c_m of u_m(k_j) over the keys in it (at first that of its first key alone,
// which every query sees), which lags behind by less than log 2^16, and S and z relative to it:
//
//   K_jm = exp(u_m(k_j) − c_m),  Q_im = exp(u_m(q_i) + c_m − a_i),  a_i = max_m(u_m(q_i) + c_m)
//   den_i = z·Q_i + Σ_j W_ij ≥ 1,  L_i = a_i + log den_i
//
// Every maximum is over keys that all its readers see, so nothing leaks from the future, and no ε
// is needed. After a block that lies too far above c, c rises to include it, and S and z are scaled
// down.
//
// Backward, with g = dy, δ_i = g_i·y_i and φ̄(q_i) = φ(q_i)/den_i = exp(u(q_i) + c − L_i):
//
//   ∂L/∂φ(q_i)·den_i = S·g_i − δ_i·z + Σ_{j≤i} G_ij·φ(k_j)        G_ij = g_i·v_j − δ_i
//   R = Σ_i φ̄(q_i)·g_iᵀ,  w = −Σ_i φ̄(q_i)·δ_i                     over later queries
//   ∂L/∂φ(k_j) = R·v_j + w + Σ_{i≥j} G_ij·φ̄(q_i)
//   dv_j = Rᵀφ(k_j) + Σ_{i≥j} W̄_ij·g_i
#pragma once

#include <cstddef>

#include "longspan/base/view.h"
#include "longspan/kernels/feature/feature_map.h"

namespace longspan {

inline constexpr std::size_t kFeatureBlock = 64;  // tokens in the lanes

struct FeatureSizes {
  std::size_t d = 0;
  std::size_t e = 0;
  std::size_t features = 0;  // M
};

// Floats of scratch, aligned to 64 bytes, that the calls of one block share.
std::size_t feature_forward_scratch(const FeatureSizes& sizes);
std::size_t feature_backward_scratch(const FeatureSizes& sizes);

// What stands for all keys before a block, or in backward (R, w) for all queries behind it. Zeros
// are the state of none.
struct FeatureState {
  float* top = nullptr;     // c, [M]; base 2; unused by plain kinds
  float* sum = nullptr;     // z, [M]
  float* moment = nullptr;  // S, [M][tile_pitch(e)]

  bool empty() const { return sum[0] == 0.0F; }
};
std::size_t feature_state_floats(const FeatureSizes& sizes);
FeatureState feature_state(const FeatureSizes& sizes, float* memory);

// state += more, relative to the larger maxima; for plain kinds a sum.
void feature_merge(const FeatureMap& map, const FeatureSizes& sizes, const FeatureState& more,
                   const FeatureState& state);
// map.over_sequence: S_m ← gain·S_m/z_m, and z = 1 and c = 0 for the readers. What they were goes
// to `kept`, as a state without moment.
void feature_divide(const FeatureSizes& sizes, float gain, const FeatureState& state,
                    const FeatureState& kept);
// Its derivative: R_m ← gain·R_m/z_m and w_m = −(R_m·S_m)/z_m.
void feature_divide_backward(const FeatureSizes& sizes, float gain, const FeatureState& state,
                             const FeatureState& kept, const FeatureState& signal);

// The largest element of u over these keys: the shift of kShifted keys.
float feature_largest(const FeatureMap& map, ConstMatrix k, const FeatureSizes& sizes,
                      float* scratch);

// φ of at most kFeatureBlock keys, relative to `top`, which starts from the first of them if
// `fresh`; kept in the scratch with the values for the calls that follow.
void feature_keys(const FeatureMap& map, ConstMatrix k, ConstMatrix v, float shift, float* top,
                  bool fresh, float* scratch);
// Adds them to the state; `k` are the same keys.
void feature_absorb(const FeatureMap& map, const FeatureSizes& sizes, ConstMatrix k,
                    const FeatureState& state, float* scratch);

// A block of queries of one head; query i sees the first min(seen + i, keys) keys in the scratch.
struct FeatureQueries {
  ConstMatrix q;
  std::size_t keys = 0;
  std::size_t seen = 0;
  ConstMatrix k = {};  // the keys themselves

  std::size_t visible(std::size_t i) const { return seen + i < keys ? seen + i : keys; }
  std::size_t pairs() const {
    std::size_t total = 0;
    for (std::size_t i = 0; keys > 0 && i < q.rows; ++i) total += visible(i);
    return total;
  }
};
// y, and per query the level that backward needs: L (kExp, base 2) or 1/den. `level` may be null.
void feature_read(const FeatureMap& map, const FeatureQueries& block, const FeatureState& state,
                  Matrix y, float* level, float* scratch);

// The same without mask for maps that by_rows() of feature_map.h names, from tokens as they lie: a
// block of at most kFeatureBlock keys joins the state, one of queries reads it.
void feature_rows_absorb(const FeatureMap& map, ConstMatrix k, ConstMatrix v,
                         const FeatureState& state, float* scratch);
void feature_rows_read(const FeatureMap& map, ConstMatrix q, const FeatureState& state, Matrix y,
                       float* level, float* scratch);

struct FeatureSignal {
  ConstMatrix dy;
  const float* level = nullptr;
  const float* delta = nullptr;  // δ
};
// dq from the state and, in causal blocks, the keys in the scratch; if `sums` is given, R and w
// receive the queries.
void feature_query_backward(const FeatureMap& map, const FeatureQueries& block,
                            const FeatureSignal& signal, const FeatureState& state, Matrix dq,
                            const FeatureState* sums, float* scratch);

// dk and dv: begin with the keys, add every head's causal block, turn ∂L/∂φ into slopes ∂L/∂u and
// finish. Adding also puts the queries into R and w, which `begin` has read before; `top` is c of
// the block.
void feature_key_backward_begin(const FeatureMap& map, ConstMatrix k, ConstMatrix v, float shift,
                                float* top, const FeatureState& sums, float* scratch);
void feature_key_backward_add(const FeatureMap& map, const FeatureQueries& block,
                              const FeatureSignal& signal, const float* top,
                              const FeatureState& sums, std::size_t e, float* scratch);
void feature_key_backward_slopes(const FeatureMap& map, const FeatureSizes& sizes, std::size_t keys,
                                 float* scratch);
void feature_key_backward_finish(const FeatureMap& map, Matrix dk, Matrix dv, float* scratch);
// Where keys lie so far above c that they are cut off: `begin` with the c behind the block, and R
// relative to it; after the slopes, the pairs of every head one by one. Then the queries alone are
// added.
bool feature_cut_off(const FeatureMap& map, const FeatureSizes& sizes, ConstMatrix k, float* top,
                     float* scratch);
void feature_key_backward_pairs(const FeatureMap& map, const FeatureQueries& block,
                                const FeatureSignal& signal, float* scratch);
// R ← 2^(before − after)·R when c goes from `after` back to `before`, w likewise.
void feature_lower(const FeatureSizes& sizes, const float* before, const float* after,
                   const FeatureState& sums);

}  // namespace longspan
