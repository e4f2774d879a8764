// Attention of the queries of one cluster over the keys that their centroid looks at most. One
// cluster of one head on the calling thread.
//
//   T = the cluster's k keys, A_l = e^(c·k_l/√d − L) the centroid's weights on them, m̂ = Σ_T A_l
//   b = V^c − Σ_T A_l·v_l                         what the centroid brings from all other keys
//   P_il = softmax over T of q_i·k_l/√d,          y_i = b + m̂·Σ_T P_il·v_l
//
// Backward, with s = 1/√d, r_i = Σ_T P_il·(dy_i·v_l), db = Σ_i dy_i and dm̂ = Σ_i r_i (0 where the
// mass is held constant):
//
//   dS_il = m̂·P_il·(dy_i·v_l − r_i)               dq_i = s·Σ_T dS_il·k_l
//   g_l   = dm̂ − db·v_l                           D = db·V^c + Σ_T A_l·g_l
//   dk_l += s·(Σ_i dS_il·q_i + A_l·g_l·c)         dc += s·Σ_T A_l·g_l·k_l
//   dv_l += m̂·Σ_i P_il·dy_i − A_l·db
//
// and what all keys give to the centroid is exact attention with the row sum D.
//
// Without a bottom (causal) b = 0 and m̂ = 1, queries see the keys of T that are not later, and the
// centroid only chooses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "longspan/base/view.h"

namespace longspan {

struct ClusterTask {
  ConstMatrix q;  // [m, d]
  ConstMatrix k;  // [n, d]
  ConstMatrix v;  // [n, e]
  float scale = 1.0F;
  std::span<const std::int32_t> members;  // rows of q
  std::span<const std::int32_t> keys;     // T, rows of k
  bool bottom = true;
  std::span<const float> centroid;  // c
  std::span<const float> value;     // V^c
  float level = 0.0F;               // L, base 2
};

struct ClusterGradient {
  ConstMatrix dy;  // [m, e]
  bool constant_mass = false;
  Matrix dq;                   // [m, d], the members' rows are set
  Matrix dk;                   // [k, d], set: row t belongs to key T[t]
  Matrix dv;                   // [k, e], set
  std::span<float> dvalue;     // db, set
  std::span<float> dcentroid;  // set
  float* delta = nullptr;      // D, set
};

// Floats of scratch, aligned to 64 bytes.
std::size_t cluster_forward_scratch(std::size_t d, std::size_t e, std::size_t k);
std::size_t cluster_backward_scratch(std::size_t d, std::size_t e, std::size_t k);

// y[i] of the members.
void cluster_forward(const ClusterTask& task, Matrix y, float* scratch);
void cluster_backward(const ClusterTask& task, const ClusterGradient& gradient, float* scratch);

}  // namespace longspan
