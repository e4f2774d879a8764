// Multi-head attention, self, masked or cross.
//
//   [Q|K|V] = x·W_QKVᵀ                 self and masked
//   Q = x·W_Qᵀ, [K|V] = memory·W_KVᵀ   cross
//   C = heads of mechanism(Q, K, V), side by side
//   y = C·W_Oᵀ
//
//   dC = dy·W_O;  dQ, dK, dV from the mechanism;  dx = [dQ|dK|dV]·W_QKV
//   dW_O += dyᵀ·C;  dW_QKV += [dQ|dK|dV]ᵀ·x
//
// Heads stay in the columns of the projections: nothing is transposed or copied. With g key-value
// heads for h query heads K and V are g·d_head wide. A mechanism whose keys are its queries has no
// W_K. A mechanism may own parameters: they are declared with the layer's, and what it reads of x
// itself adds to dx. Low-rank adapters may stand beside W_QKV (W_Q of cross-attention) and W_O.
//
// Rules that compare two passes take the difference of each projection, before rotary positions. A
// mechanism with parameters is one layer C = f_θ(Q, K, V) to them: θ learns from C − C_err and the
// modulated Q, K and V, contracted with ∂f/∂θ as a matrix is with its input.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "longspan/attention/attention.h"
#include "longspan/layers/adapter.h"
#include "longspan/layers/branch.h"
#include "longspan/layers/linear.h"
#include "longspan/layers/positions.h"

namespace longspan {

struct MultiHeadAttentionConfig {
  std::size_t d_model = 0;
  std::size_t heads = 1;
  std::size_t kv_heads = 1;
  bool causal = false;
  bool cross = false;
  bool bias = true;
  float dropout = 0.0F;  // of the attention weights
  float deviation = 0.02F;
  float output_deviation = 0.02F;
  std::string attention = "flash";
  std::string stack = "stack";  // what shares the tables of the mechanism
  std::size_t layer = 0;
  std::size_t max_length = 0;
  std::size_t lora_rank = 0;  // 0: no adapters
  float lora_alpha = 16.0F;
  std::shared_ptr<const RotaryTable> rotary;  // null: none
};

class MultiHeadAttention final : public Branch {
 public:
  MultiHeadAttention(Parameters& parameters, const std::string& name,
                     const MultiHeadAttentionConfig& config);

  std::string_view meter_name() const override { return config_.cross ? "cross" : "mha"; }
  void begin_step(std::uint64_t step) override { mechanism_->begin_step(step); }
  void check(const Pass& pass) const override { mechanism_->check(shape(pass)); }
  BranchSaved save(const Pass& pass, Arena& arena) const override;
  void forward(const Pass& pass, ConstMatrix x, Matrix y, const BranchSaved* saved,
               Arena& arena) const override;
  BranchSignals backward(const Pass& pass, const BranchSaved& saved, ConstMatrix dy, Matrix dx,
                         Arena& arena) const override;
  void accumulate(const Pass& pass, ConstMatrix x, const BranchSaved& saved, ConstMatrix dy,
                  const BranchSignals& signals) const override;

  bool trained() const override {
    return !in_.weight().constant || (in_adapter_ && !in_adapter_->frozen());
  }
  BranchSaved save_outputs(const Pass& pass, Arena& arena) const override;
  BranchSaved save_modulated(const Pass& pass, Arena& arena) const override;
  BranchSignals contrast(const Pass& pass, const BranchSaved& standard,
                         const BranchSaved& modulated, float scale, Arena& arena) const override;

  const Attention& mechanism() const { return *mechanism_; }
  Attention& mechanism() { return *mechanism_; }
  // Is shown what the mechanism is given, before every forward; empty: nobody.
  using Observer = std::function<void(const AttentionInputs&)>;
  void set_observer(Observer observer) { observer_ = std::move(observer); }
  std::size_t state_floats(std::size_t batch) const;
  // Of the mechanism's notes on a cache of `capacity` tokens.
  std::size_t note_floats(std::size_t batch, std::size_t capacity) const;
  const MultiHeadAttentionConfig& config() const { return config_; }
  std::size_t d_head() const { return config_.d_model / config_.heads; }

 private:
  struct Tensors {
    Heads q;
    Heads k;
    Heads v;
  };
  bool shared_qk() const { return needs_.shared_qk; }
  std::size_t kv_width() const { return config_.kv_heads * d_head(); }
  std::size_t projected_width() const;
  AttentionCost mechanism_cost(const Pass& pass) const;
  BranchSignals take_projections(const Pass& pass, Arena& arena) const;
  Matrix take_adapted(const Pass& pass, Arena& arena) const;
  Tensors split(const Pass& pass, Matrix projected, Matrix memory_projected) const;
  void project(const Pass& pass, ConstMatrix x, Matrix projected, Matrix memory_projected) const;
  void rotate(const Tensors& t, std::size_t first, bool inverse) const;
  AttentionInputs inputs(const Pass& pass, const Tensors& t, ConstMatrix x) const;
  AttentionShape shape(const Pass& pass) const;
  AttentionShape cached_shape(std::size_t batch, std::size_t capacity) const;
  void attend(const Pass& pass, ConstMatrix x, const BranchSaved& kept, Arena& arena) const;
  // Puts the new keys and values behind those in the cache and attends to all of them.
  Tensors extend(KeyValueCache& cache, Tensors fresh) const;
  // Whether the mechanism has parameters of its own that are trained.
  bool mechanism_learns(const AttentionCost& mechanism) const {
    return !in_adapter_ && mechanism.update.flops() > 0;
  }
  bool decodes(const Pass& pass) const { return pass.cache != nullptr && !config_.cross; }

  MultiHeadAttentionConfig config_;
  std::unique_ptr<Attention> mechanism_;
  Needs needs_;
  Linear in_;                 // q|k|v, or q
  std::optional<Linear> kv_;  // cross: k|v
  Linear out_;
  std::optional<Adapter> in_adapter_;
  std::optional<Adapter> out_adapter_;
  Observer observer_;
};

}  // namespace longspan
