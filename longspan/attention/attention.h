// Attention: y = mechanism(q, k, v) on whole [batch, heads, n, d] views.
//
// A mechanism declares its abilities; what it cannot do is refused with a reason, never computed
// wrongly. It is const and holds no memory: what backward needs is kept in `saved`, temporaries
// come from the arena, and cost() says beforehand how much of everything there will be.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "longspan/attention/mask.h"
#include "longspan/base/arena.h"
#include "longspan/base/meter.h"
#include "longspan/base/random.h"
#include "longspan/base/view.h"

namespace longspan {

struct AttentionShape {
  std::size_t batch = 1;
  std::size_t heads = 1;     // of the queries
  std::size_t kv_heads = 1;  // divides heads; query head h reads key head h / (heads / kv_heads)
  std::size_t m = 0;         // queries
  std::size_t n = 0;         // keys
  std::size_t d = 0;         // width of a query and key
  std::size_t e = 0;         // width of a value
  bool causal = false;
  std::span<const std::int32_t> key_lengths;  // empty = all n
  bool bias = false;                          // an additive bias is present
  bool bias_gradient = false;                 // and its gradient is wanted
  bool dropout = false;
};

struct AttentionCost {
  Work forward;
  Work backward;
  std::size_t saved = 0;             // floats kept from forward to backward
  std::size_t forward_scratch = 0;   // bytes of arena while forward runs
  std::size_t backward_scratch = 0;  // bytes of arena while backward runs
};

struct AttentionInputs {
  ConstHeads q;
  ConstHeads k;
  ConstHeads v;
  Mask mask;
  Dropout dropout;  // of the attention weights; plane = b·heads + h, element (i, j)
};

struct AttentionGradients {
  Heads q;
  Heads k;
  Heads v;
  TableView<float> bias;  // same strides as the bias; shared planes receive the sum
};

struct Abilities {
  bool exact = false;
  bool causal = false;
  bool cross = false;  // m ≠ n
  bool key_lengths = false;
  bool bias = false;
  bool boolean_mask = false;
  bool dropout = false;
  bool grouped_heads = false;
  bool decode = false;

  // Exact attention can do everything.
  static Abilities all() {
    return {.exact = true,
            .causal = true,
            .cross = true,
            .key_lengths = true,
            .bias = true,
            .boolean_mask = true,
            .dropout = true,
            .grouped_heads = true,
            .decode = true};
  }
};

class Attention {
 public:
  virtual ~Attention() = default;
  virtual std::string_view name() const = 0;
  virtual Abilities abilities() const = 0;
  virtual AttentionCost cost(const AttentionShape& shape) const = 0;

  // y = mechanism(q, k, v). `saved` holds cost().saved floats, or is empty when no backward
  // follows; the scratch is the same either way.
  void forward(const AttentionInputs& in, Heads y, std::span<float> saved, Arena& arena) const;

  // Sets grad.q, grad.k and grad.v to ∂L/∂q, ∂L/∂k and ∂L/∂v given dy = ∂L/∂y; adds to grad.bias.
  void backward(const AttentionInputs& in, ConstHeads y, ConstHeads dy,
                std::span<const float> saved, const AttentionGradients& grad, Arena& arena) const;

  // Throws Error where the mechanism cannot do what the shape, mask or memory asks.
  void check(const AttentionShape& shape) const;

 private:
  // What else the mechanism refuses, its memory for instance.
  virtual void check_more(const AttentionShape& /*shape*/) const {}
  virtual void run_forward(const AttentionInputs& in, Heads y, std::span<float> saved,
                           Arena& arena) const = 0;
  virtual void run_backward(const AttentionInputs& in, ConstHeads y, ConstHeads dy,
                            std::span<const float> saved, const AttentionGradients& grad,
                            Arena& arena) const = 0;
};

AttentionShape shape_of(const AttentionInputs& in);

// Queries × keys that are visible by causality and length, summed over the batch, for one head.
std::uint64_t visible_pairs(const AttentionShape& shape);
// Queries × tiles of `tile` keys in which the query sees at least one; visible_pairs has tile = 1.
std::uint64_t visible_tiles(const AttentionShape& shape, std::size_t tile);
// Keys that are not padding, summed over the batch.
std::uint64_t real_keys(const AttentionShape& shape);

}  // namespace longspan
