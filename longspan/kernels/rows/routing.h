// Rows to experts and back: who computes a row, where it waits, and what its result weighs.
//
//   p = softmax(r),  e_1 … e_k the experts with the k largest p, of equal ones the first
//   g_j = p[e_j],  or p[e_j]/Σ_i p[e_i] if normalised
//   slots: all first choices in the order of the rows, then all second ones, …; an expert that has
//          `capacity` rows takes no more, and the choice is dropped
//   y = Σ_j g_j·o[slot_j]  over the choices that were not dropped
//
//   dg_j = dy·o[slot_j],  do[slot_j] = g_j·dy,  dg_j = 0 where dropped
//   dp[e_j] = dg_j,  or (dg_j − Σ_i g_i·dg_i)/Σ_i p[e_i] if normalised
//   dr = p⊙(dp − Σ p⊙dp)
//
// Slots are packed: those of expert 0 come first, then those of expert 1, without gaps, so that the
// rows which experts compute are the first of a matrix and its shape says how many there are.
// Rows are copied to slots by gather_rows with `sources`, and gradients back by scatter_add_rows.
//
// Every function says in its last lines what it reports, for T real rows, E experts, k choices and
// S rows in slots, d wide.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "longspan/base/view.h"
#include "longspan/kernels/rows/sequence.h"

namespace longspan {

struct RouteOptions {
  Sequences sequences;       // padding is not routed
  std::size_t tokens = 0;    // real rows of them
  std::size_t experts = 1;   //
  std::size_t top = 1;       // choices of a row, at most `experts`
  std::size_t capacity = 0;  // rows that an expert takes
  bool normalize = false;    // the gates of a row are divided by their sum
  bool decided = false;      // the choices are made: only what follows from them is to do

  // The most slots that are ever taken.
  std::size_t slots() const { return std::min(tokens * top, experts * capacity); }
  bool divides() const { return normalize && top > 1; }
};

// What the rows chose.
struct Routes {
  Matrix probabilities;             // p, [rows, experts]; zeros for padding
  Matrix gates;                     // g, [rows, top]; zeros for padding
  std::span<std::int32_t> chosen;   // the expert of each choice, [rows·top]; −1 for padding
  std::span<std::int32_t> slots;    // its slot, [rows·top]; −1 where dropped and for padding
  std::span<std::int32_t> sources;  // the row in each slot, [slots]
  std::span<std::int32_t> loads;    // slots of each expert, [experts]
  std::span<std::int32_t> firsts;   // rows whose first choice it is, dropped or not, [experts]
};

// `probabilities` holds r on entry, and `chosen` the choices if they are decided; everything is set.
//   kSoftmax, T·5E, and T·(2k − 1) if the gates are divided; kSort, T·k·(E + 1) comparisons, T·k if
//   decided
void route_rows(const RouteOptions& options, const Routes& routes);
// The gradient of the gates and of balance·Σ_e firsts_e·Σ_t p[t, e], sent to r.
//   kSoftmax, T·(5E + k), and T·4k if the gates are divided
void route_backward(const RouteOptions& options, const Routes& routes, ConstMatrix dgates,
                    float balance, Matrix dr);

// Σ_e firsts_e·Σ_t p[t, e]; `sums`, [1, experts], is spoiled.
//   kAdd, 1 per element of p, padding included, and 2E
double balance_sum(const Routes& routes, Matrix sums);

// y = the weighted sum of the slots of each row; zeros for rows without any.
//   kGather, 2·S·d
void combine_slots(const Routes& routes, ConstMatrix outputs, Matrix y);
// Sets dgates, [rows, top], and doutputs, shaped as the outputs.
//   MACCs S·d; kGather, S·d
void combine_slots_backward(const Routes& routes, ConstMatrix outputs, ConstMatrix dy,
                            Matrix dgates, Matrix doutputs);

}  // namespace longspan
