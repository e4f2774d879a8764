// Gated retention: a mechanism for tests, which uses what streams allow and keeps a buffer.
//
//   c     mean of the keys, of each key head: a buffer, c ← ρ·c + (1 − ρ)·(mean key of the step)
//   L_i = Σ_{t≤i} log σ(f_t)                               f: stream "decay", one for a value head
//   o_i = Σ_j q_i·(k_j − c)/√d · exp(−|L_i − L_j|) v_j     over the keys j that query i may see
//   y_i = o_i ⊙ σ(g_i)                                     g: stream "gate", as wide as a value
//
//   do_i = dy_i ⊙ σ(g_i),  dg_i = dy_i ⊙ y_i ⊙ (1 − σ(g_i))
//   s = q_i·(k_j − c)/√d,  D = exp(−|L_i − L_j|),  p = do_i·v_j
//   dv_j += s·D do_i,  dq_i += p·D/√d (k_j − c),  dk_j += p·D/√d q_i
//   dL of the later of i and j += p·s·D, of the earlier −= p·s·D
//   df_t = (1 − σ(f_t)) Σ_{i≥t} dL_i
//
// A key head has `values` value heads, each `wider` times d_head wide; q and k are 1/`narrow` of
// d_head wide. Value head w reads query and key head w/values. Between two sequences nothing
// decays: D = 1. Decoding keeps S_i = σ(f_i) S_{i−1} + (k_i − c) v_iᵀ.
#pragma once

#include <vector>

#include "longspan/attention/registry.h"

namespace longspan::testing {

struct GatedRetentionConfig {
  std::size_t values = 2;
  std::size_t wider = 2;
  std::size_t narrow = 1;
  template <class See>
  void visit(See see) {
    see("values", values);
    see("wider", wider);
    see("narrow", narrow);
  }
};

class GatedRetention final : public Attention {
 public:
  static constexpr float kKept = 0.75F;  // ρ

  GatedRetention(const GatedRetentionConfig& config, const AttentionSite& site);
  static Abilities can();
  static Streams streams(const GatedRetentionConfig& config, const AttentionLayout& layout);
  // To be found as "retention" while an ExtraMechanism of it lives.
  static const Mechanism& mechanism();

  std::string_view name() const override { return "retention"; }
  void begin_step(std::uint64_t step) override;
  void end_step() override;
  AttentionCost cost(const AttentionShape& shape) const override;
  std::size_t state_floats(const AttentionShape& shape) const override;
  AttentionCost decode_cost(const AttentionShape& shape) const override;

  ConstMatrix mean() const { return mean_->matrix(); }
  std::size_t ends() const { return ends_; }    // calls of end_step
  std::size_t taken() const { return taken_; }  // keys that all of them took

 private:
  void check_more(const AttentionShape& shape) const override;
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
  void run_accumulate(const AttentionInputs& in, std::span<const float> saved,
                      std::span<const float> signals) const override;
  void run_decode(const AttentionInputs& in, Heads y, std::span<float> state,
                  Arena& arena) const override;

  // What forward saves: k − c and L.
  template <class T>
  struct Prepared {
    HeadsView<T> centred;
    std::span<T> levels;
  };
  template <class T>
  Prepared<T> split(const AttentionShape& shape, std::span<T> floats) const;
  void prepare(const AttentionInputs& in, const Prepared<float>& to, Work& work) const;

  GatedRetentionConfig config_;
  bool decays_;
  Parameter* mean_;
  mutable std::vector<float> sum_;    // of the keys of a step
  mutable std::size_t gathered_ = 0;  // their number
  std::size_t ends_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace longspan::testing
