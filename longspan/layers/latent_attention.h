// Multi-head latent attention (DeepSeek-V2, 2024, arXiv:2405.04434): the keys and values of all heads
// come from one narrow row per token, and only that is remembered.
//
//   q      = W_q·x, or W_qb·rms(W_qa·x)      per head [κ | ρ]
//   [c | u] = W_ka·x                          the latent, rank wide, and one key of ρ for all heads
//   c ← rms(c),  u and the ρ of q are rotated
//   [k | v]_h = W_h·c                         W_h = [W_k,h ; W_v,h] of κ and of `value` rows
//
//   l_ij = s·(q_κ·k_j + q_ρ·u_j),  y = Σ_j softmax_j(l_ij)·v_j,  out = W_O·[y_1 … y_h]
//
// Both norms are RMSNorm with ε = 1e-6; s is 1/√(κ + ρ) unless it is given. Biases are those of W_qa,
// W_ka and W_O. Two forms give the same numbers:
//
//   expanded   k and v are computed for every head, as written
//   absorbed   l_ij = s·(W_k,hᵀ·q_κ·c_j + q_ρ·u_j),  y_h = W_v,h·Σ_j p_ij·c_j
//              all heads read the cache itself, as one key of rank + ρ and one value of rank
//
// MACCs of m tokens behind n − m others in a cache, h heads, P = m·n − m·(m−1)/2 pairs:
//
//   expanded   h·(n·rank·(κ + value) + P·(κ + ρ + value))
//   absorbed   h·(m·rank·(κ + value) + P·(2·rank + ρ))
//
// Decoding takes the form that needs fewer; everything else is expanded. A cache has rank + ρ floats
// for each token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "longspan/attention/exact/flash.h"
#include "longspan/base/choice.h"
#include "longspan/base/number.h"
#include "longspan/base/parameter.h"
#include "longspan/layers/branch.h"
#include "longspan/layers/linear.h"
#include "longspan/layers/multi_head_attention.h"
#include "longspan/layers/norm.h"
#include "longspan/layers/runs.h"

namespace longspan {

enum class LatentForm : std::uint8_t { kAuto, kExpanded, kAbsorbed };
constexpr Names<3> names_of(LatentForm /*kind*/) {
  return {"latent", "form", {"auto", "expanded", "absorbed"}};
}

struct LatentAttentionConfig {
  std::size_t rank = 512;
  std::size_t query_rank = 0;
  std::size_t nope = 128;
  std::size_t rope = 64;
  std::size_t value = 128;
  double scale = 0.0;
  Choice<LatentForm> form = LatentForm::kAuto;

  template <class See>
  void visit(See see) {
    see("rank", rank, "width of the latent", from_to(1, 1e6));
    see("query_rank", query_rank, "width between the two matrices of queries; 0: there is one",
        from_to(0, 1e6));
    see("nope", nope, "channels of a query and key without positions", from_to(1, 1e6));
    see("rope", rope, "channels that are rotated, their key shared by all heads", from_to(0, 1e6));
    see("value", value, "width of a head's value", from_to(1, 1e6));
    see("scale", scale, "of the scores; 0: 1/√(nope + rope)", from_to(0, 1e6));
    see("form", form, "of decoding: what needs fewer MACCs, or one for all");
  }
};

class LatentAttention final : public Branch {
 public:
  static constexpr std::string_view kName = "latent";
  static constexpr float kEpsilon = 1e-6F;

  // Of `layer`: the width of the model, heads, causality, biases, deviations, dropout and positions.
  LatentAttention(Parameters& parameters, const std::string& name,
                  const LatentAttentionConfig& config, const MultiHeadAttentionConfig& layer);

  std::string_view meter_name() const override { return MultiHeadAttention::kMeter; }
  void check(const Pass& pass) const override;
  Kept save(const Pass& pass, Arena& arena) const override;
  void forward(const BranchForward& call) const override;
  Kept backward(const BranchBackward& call) const override;
  void accumulate(const BranchUpdate& call) const override;

  bool trained() const override { return !key_down_.weight().constant; }
  bool decodes() const override { return layer_.causal; }
  bool packs() const override { return true; }
  void size_cache(std::size_t context, DecodeCache& cache) const override;

  // What m tokens of one sequence that end a cache of n cost between projections of the input and
  // W_O.
  std::uint64_t expanded_maccs(std::size_t m, std::size_t n) const;
  std::uint64_t absorbed_maccs(std::size_t m, std::size_t n) const;
  // The largest n ≥ m for which m tokens are decoded expanded; 0: none.
  std::size_t most_expanded(std::size_t m) const;

 private:
  enum What : std::size_t {
    kQueryLow,   // rms(W_qa·x); its signals are those of W_qa·x
    kQueries,    // rotated
    kLow,        // a row of the cache, [c | u]; its signals are those of W_ka·x
    kExpanded,   // per head [k | u | v]; its signals per head [k | v]
    kCombined,   // the heads' outputs
    kLogSums,    // what the core saved
    kQueryUnit,  // x̂ of the norms
    kUnit,
    kInverse,  // and their 1/σ [2, rows]
  };

  std::size_t heads() const { return layer_.heads; }
  std::size_t key_width() const { return config_.nope + config_.rope; }
  std::size_t low_width() const { return config_.rank + config_.rope; }
  std::size_t up_width() const { return config_.nope + config_.value; }
  bool two_queries() const { return config_.query_rank > 0; }
  Norm::Saved query_saved(const Kept& kept) const;
  Norm::Saved key_saved(const Kept& kept) const;
  Matrix latent(Matrix low) const { return low.slice_cols(0, config_.rank); }
  ConstMatrix latent(ConstMatrix low) const { return low.slice_cols(0, config_.rank); }
  // The rope part of a matrix with as many heads.
  Heads turned(Matrix x, std::size_t batch, std::size_t heads) const;

  AttentionShape shape(const Pass& pass) const;
  void take_low(std::size_t rows, Arena& arena, Kept& kept) const;
  // Queries and rows of the cache, not rotated.
  void project(ConstMatrix x, const Kept& kept) const;
  void rotate(const Pass& pass, const Kept& kept, std::size_t first, bool inverse) const;
  void rotate_runs(const Pass& pass, const Kept& kept, bool inverse) const;
  void expand(ConstMatrix low, Matrix expanded, Arena& arena) const;
  // What the core reads and gives; `expanded` has rows of its own.
  AttentionInputs inputs(const Pass& pass, Matrix queries, Matrix expanded) const;
  Heads combined(const Pass& pass, Matrix c) const {
    return Heads::from_columns(c, pass.batch, heads());
  }

  // The tokens of every sequence in the cache, as `heads` that are all the same.
  Heads remembered(const DecodeCache& cache, std::size_t tokens) const;
  void decode(const BranchForward& call, const Kept& kept) const;
  void decode_expanded(const BranchForward& call, const Kept& kept, std::size_t n) const;
  void decode_absorbed(const BranchForward& call, const Kept& kept, std::size_t n) const;

  void attend_backward(const BranchBackward& call, Matrix dkeys, const Kept& signals) const;
  void norm_back(const Norm& norm, const Norm::Saved& saved, Matrix signal) const;

  LatentAttentionConfig config_;
  MultiHeadAttentionConfig layer_;
  std::shared_ptr<const RotaryTable> rotary_;
  std::optional<Linear> query_down_;
  std::optional<Norm> query_norm_;
  Linear query_;  // the second, or only one
  Linear key_down_;
  Norm key_norm_;
  Linear key_up_;
  Linear out_;
  FlashAttention core_;
};

}  // namespace longspan
