// Disentangled attention (He et al., 2021, arXiv:2006.03654): content and distance apart.
//
//   A_ij = q_i·k_j + q_i·Kr_b + k_j·Qr_b,   b = δ(i − j)      c→c, c→p, p→c
//   y_i  = Σ_j softmax_j(A_ij/√((1 + terms)·d))·v_j           √(3d) with both terms
//   Kr   = R·W_Krᵀ (+ bias),  Qr = R·W_Qrᵀ + bias             R [2k, d_model]
//
// The papers write δ(j, i) in p→c; the code that trained the published models uses the same bucket
// for both terms, and so does this. With s = `span`:
//
//   buckets = 0   δ(r) = clamp(r, −s, s − 1) + s, k = s       version 1
//   buckets = B   δ(r) = clamp(β(r), −B, B − 1) + B, k = B    versions 2 and 3, m = ⌊B/2⌋
//                 β(r) = r where |r| ≤ m, else sign(r)·(m + ⌈(m − 1)·ln(|r|/m)/ln((s − 1)/m)⌉)
//
// R, and the LayerNorm on it (`norm`), belong to all layers of a stack. The projections are streams
// on call: those of the layer's queries and keys (`share`) or others.
//
// The scores are made tile by tile: Kr·qᵀ is one product per 64 queries, K·Qrᵀ [n, 2k] is kept for
// all keys, and a tile takes its band of both. So the extra memory is O(n·k), never n×n.
//
// Counts: block_sparse.h with all visible pairs and the relative terms, and
//   forward   2·2k·d_model·h·d MACCs (Kr, Qr), h·N·2k·d (K·Qrᵀ); their biases; the norm
//   backward  the same again, 2·2k·d_model·h·d (R), 2·h·N·2k·d (k and Qr)
//   update    2·2k·d_model·h·d (W_Kr, W_Qr), biases, the norm
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/base/number.h"

namespace longspan {

struct DebertaConfig {
  std::size_t span = 512;    // the largest distance that is told apart
  std::size_t buckets = 0;   // 0: every distance its own
  bool c2p = true;           // content to position
  bool p2c = true;           // position to content
  bool share = false;        // the projections of queries and keys serve positions too
  bool key_bias = false;     // W_Kr has a bias, as in version 2
  bool content_bias = true;  // W_K has one where W_Q and W_V have; not in version 1
  bool norm = false;         // LayerNorm on R
  float epsilon = 1e-7F;     // of the norm

  bool operator==(const DebertaConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("span", span, "the largest distance that is told apart", from_to(1, 65536));
    see("buckets", buckets, "logarithmic, on each side; 0: every distance its own",
        from_to(0, 65536));
    see("c2p", c2p, "content to position");
    see("p2c", p2c, "position to content");
    see("share", share, "queries' and keys' projections serve positions too");
    see("key_bias", key_bias, "the projection of position keys has a bias");
    see("content_bias", content_bias,
        "the projection of keys has one where queries' and values' have");
    see("norm", norm, "LayerNorm on the table of distances");
    see("epsilon", epsilon, "of the norm", above_to(0, 1));
  }
};

class DebertaAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "deberta";
  static constexpr std::string_view kEquations =
      "A_ij = q_i·k_j + q_i·Kr_b + k_j·Qr_b,   b = δ(i − j)\n"
      "y_i = Σ_j softmax_j(A_ij/√(3d))·v_j";
  DebertaAttention(const DebertaConfig& config, const AttentionSite& site);
  static Abilities can(const DebertaConfig& config);
  static Streams streams(const DebertaConfig& config, const AttentionLayout& layout);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;

  const DebertaConfig& config() const { return config_; }
  // Rows of R.
  std::size_t rows() const { return 2 * (config_.buckets > 0 ? config_.buckets : config_.span); }
  // δ of a distance i − j.
  std::int32_t bucket(std::ptrdiff_t distance) const;

 private:
  struct Positions;
  struct Sizes;

  void check_more(const AttentionShape& shape) const override;
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
  void run_accumulate(const AttentionInputs& in, std::span<const float> saved,
                      std::span<const float> signals) const override;

  float scale(std::size_t d) const;
  void fill_buckets(std::size_t n, std::span<std::int32_t> out) const;
  ConstMatrix normalized_table(std::span<const float> saved, const AttentionShape& shape) const;
  Positions project(const AttentionInputs& in, ConstMatrix table, Arena& arena) const;
  Work projection_work(const AttentionShape& shape) const;
  std::size_t projection_bytes(const AttentionShape& shape) const;

  DebertaConfig config_;
  Parameter* table_;  // R
  Parameter* gamma_ = nullptr;
  Parameter* beta_ = nullptr;
  Projection keys_;     // W_Kr
  Projection queries_;  // W_Qr
};

}  // namespace longspan
