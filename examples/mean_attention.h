// The mean of what a query may see, the simplest attention there is.
//
//   y_i  = 1/e_i · Σ_{j < e_i} v_j          query i sees the first e_i keys; y_i = 0 if e_i = 0
//   dv_j = Σ_{i: e_i > j} dy_i/e_i          queries and keys play no part: dq = dk = 0
//
// e_i never falls, so one running sum forward and one backward are enough: O(n).
//
// Counts of a head, e wide, with m queries of which the last sees e_m keys:
//   forward   e·(e_m + m) of add            backward   2·e·m of add
#pragma once

#include "longspan/attention/attention.h"

namespace longspan {

struct MeanConfig {
  bool operator==(const MeanConfig&) const = default;
  template <class See>
  void visit(See /*see*/) {}  // see("name", field, "what for", from_to(1, 64)) for each
};

class MeanAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "mean";
  static constexpr std::string_view kEquations = "y_i = 1/e_i · Σ_{j < e_i} v_j";
  explicit MeanAttention(const MeanConfig& config = {}) : Attention(can(config)) {}
  // From its options alone; what they must not be is refused here.
  static Abilities can(const MeanConfig& /*config*/) {
    return {.causal = true, .cross = true, .key_lengths = true};
  }
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;

 private:
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;
};

}  // namespace longspan
