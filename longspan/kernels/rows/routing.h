// Rows to experts and back: who computes a row, where it waits, and what its result weighs.
//
//   s = softmax(r) or σ(r), the scores;  v = s + b, by which experts are chosen
//   groups: an equal share of the experts each, in order; of a group's v the best one, or the sum of
//           the two best ones, is its own; all but the best `top_groups` have v = 0
//   e_1 … e_k the experts with the k largest v, of equal ones the first
//   g_j = c·s[e_j],  or c·s[e_j]/Σ_i s[e_i] if divided, of σ c·s[e_j]/(Σ_i s[e_i] + 1e-20)
//   slots: all first choices in the order of the rows, then all second ones, …; an expert that has
//          `capacity` rows takes no more. Of each sequence it takes `places`, where they are given.
//          A choice it does not take is dropped, or passes: its slot is behind those of the experts
//   y = Σ_j g_j·o[slot_j]  over the choices that were not dropped
//
//   dg_j = dy·o[slot_j],  do[slot_j] = g_j·dy,  dg_j = 0 where dropped
//   ds[e_j] = c·dg_j,  or (c·dg_j − Σ_i g_i·dg_i)/Σ_i s[e_i] if divided
//   dr = s⊙(ds − Σ s⊙ds),  or ds⊙s⊙(1 − s)
//
// The choice has no gradient. Slots are packed: those of expert 0 come first, then those of expert
// 1, without gaps, so that the rows which experts compute are the first of a matrix and its shape
// says how many there are. Rows are copied to slots by gather_rows with `sources`, and gradients
// back by scatter_add_rows.
//
// Losses on what was chosen are sums over groups of rows: all that are counted, or each sequence.
//
//   n_g  rows,  c[g, e]  of their choices that are e,  S[g, e] = Σ s[t, e],  z_t = log Σ_e e^r[t, e]
//   balance = E/G·Σ_g Σ_e c[g, e]·S[g, e]/n_g²,  squares = Σ_t z_t²/Σ_g n_g
//   ds[t, e] = E/G·c[g, e]/n_g²,  dr[t] = 2·z_t·s[t]/Σ_g n_g
//
// Several layers may add to one tally; counts have no gradient.
//
// Every function says in its last lines what it reports, for T routed rows, E experts, k choices and
// S rows in slots, d wide.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "longspan/base/choice.h"
#include "longspan/base/view.h"
#include "longspan/kernels/rows/sequence.h"

namespace longspan {

enum class RouteScore : std::uint8_t { kSoftmax, kSigmoid };
constexpr Names<2> names_of(RouteScore /*kind*/) {
  return {"experts", "score", {"softmax", "sigmoid"}};
}

enum class GroupScore : std::uint8_t { kBest, kTwoBest };
constexpr Names<2> names_of(GroupScore /*kind*/) {
  return {"experts", "score of groups", {"best", "two-best"}};
}

inline constexpr std::size_t kMostExperts = 4096;

struct RouteOptions {
  Sequences sequences;                 // padding is not routed; of packed ones all rows are one
  std::span<const std::int32_t> runs;  // rows of each packed sequence; empty: they are not packed
  std::size_t tokens = 0;              // routed rows
  std::size_t experts = 1;
  std::size_t top = 1;  // choices of a row, at most `experts`
  RouteScore score = RouteScore::kSoftmax;
  std::span<const float> correction = {};  // b, [experts]; empty: none
  std::size_t groups = 1;
  std::size_t top_groups = 1;
  GroupScore group_score = GroupScore::kBest;
  bool divided = false;      // the gates of a row, by their sum
  float scaling = 1.0F;      // c
  std::size_t capacity = 0;  // rows that an expert takes
  std::size_t places = 0;    // of each sequence; 0: any number
  bool passes = false;       // what no expert takes
  bool squares = false;      // z is asked for
  bool decided = false;      // the choices are made: only what follows from them is to do

  // The most rows that experts ever compute, and the most slots that are ever taken.
  std::size_t rows() const { return std::min(tokens * top, experts * capacity); }
  std::size_t slots() const { return passes ? tokens * top : rows(); }
};

// What the rows chose.
struct Routes {
  Matrix scores;                    // s, [rows, experts]; zeros for rows that are not routed
  Matrix gates;                     // g, [rows, top]; likewise
  Matrix log_sums;                  // z, [rows, 1], if it is asked for; likewise
  std::span<std::int32_t> chosen;   // the expert of each choice, [rows·top]; −1 likewise
  std::span<std::int32_t> slots;    // its slot, [rows·top]; −1 where dropped and likewise
  std::span<std::int32_t> sources;  // the row in each slot, [slots]
  std::span<std::int32_t> loads;    // slots of each expert, [experts]
  std::span<std::int32_t> taken;    // [experts], room to count in
};

// `scores` holds r on entry, and `chosen` the choices if they are decided; everything is set.
//   kSoftmax, T·5E, of σ T·4E; T·(2k − 1) if the gates are divided, of σ T·2k; T·k if they are
//   scaled; T·(E + 2) for z; unless decided, T·E for b and T·groups for their two best
//   kSort, T·k·(E + 1) comparisons, of groups T·(E + top_groups·(groups + 1)) more, T·E for two
//   best; T·k if decided
void route_rows(const RouteOptions& options, const Routes& routes);

// Whose choices a loss is on.
enum class Tallied : std::uint8_t { kFirst, kAll, kTaken };  // taken: the others count for expert 0
struct TallyOptions {
  Tallied choices = Tallied::kFirst;
  bool sequences = false;              // groups; else all rows are one
  std::span<const std::int32_t> real;  // rows of each sequence that count; empty: all
};
struct RouteTally {
  std::size_t experts = 0;
  std::vector<double> rows;     // n, [groups]
  std::vector<double> choices;  // c, [groups·experts]
  std::vector<float> sums;      // S, likewise
  double squares = 0.0;         // Σ z²

  // Memory is kept.
  void clear() {
    experts = 0;
    rows.clear();
    choices.clear();
    sums.clear();
    squares = 0.0;
  }
  double all_rows() const;
  double balance() const;
  double mean_square() const;
};
// Adds to a tally, which takes its shape from the first that does.
//   kAdd, E per counted row and 2·E per group, and 2 per row for z
void tally_routes(const RouteOptions& options, const Routes& routes, const TallyOptions& how,
                  RouteTally& tally);

// Loss on the routes: balance·tally.balance() + squares·tally.mean_square().
struct RouteLoss {
  const RouteTally* tally = nullptr;  // null: none
  TallyOptions how;
  double balance = 0.0;
  double squares = 0.0;
};
// The gradient of the gates and of the loss, sent to r.
//   kSoftmax, T·(5E + k), of σ T·(4E + k); T·4k if the gates are divided; T·k if they are scaled;
//   T·(2E + 2) for z
void route_backward(const RouteOptions& options, const Routes& routes, ConstMatrix dgates,
                    const RouteLoss& loss, Matrix dr);

// y, or y + if `add`, the weighted sum of the slots of each row; zeros for rows without any.
//   kGather, 2·S·d
void combine_slots(const Routes& routes, ConstMatrix outputs, bool add, Matrix y);
// Sets dgates, [rows, top], and doutputs, shaped as the outputs.
//   MACCs S·d; kGather, S·d
void combine_slots_backward(const Routes& routes, ConstMatrix outputs, ConstMatrix dy,
                            Matrix dgates, Matrix doutputs);

// g = σ(g), [rows, 1];  y = g·o, row by row; y may be o.
//   kActivation, 4 per row and 1 per element
void gate_rows(Matrix g, ConstMatrix o, Matrix y);
// dr = (dy·o)·g·(1 − g), [rows, 1];  do = g·dy.
//   MACCs 1, kActivation 1 per element; kActivation, 3 per row
void gate_rows_backward(ConstMatrix g, ConstMatrix o, ConstMatrix dy, Matrix dr, Matrix d_o);

}  // namespace longspan
