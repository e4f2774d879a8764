// Attention: y = mechanism(q, k, v) on whole [batch, heads, n, d] views.
//
// A mechanism declares its abilities; what it cannot do is refused with a reason, never computed
// wrongly. It is made for a site and has its parameters from then on, declared with those of the
// layer it serves; they learn as a layer's do: backward leaves signals, accumulate turns them into
// gradients. It is const and holds no memory: what backward needs is kept in `saved`, temporaries
// come from the arena, and cost() says beforehand how much of everything there will be.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "longspan/attention/mask.h"
#include "longspan/attention/projections.h"
#include "longspan/attention/streams.h"
#include "longspan/base/arena.h"
#include "longspan/base/call.h"
#include "longspan/base/parameter.h"
#include "longspan/base/random.h"
#include "longspan/base/view.h"

namespace longspan {

struct AttentionShape {
  std::size_t batch = 1;
  std::size_t heads = 1;        // of the queries
  std::size_t kv_heads = 1;     // divides heads; query head h reads key head h / (heads / kv_heads)
  std::size_t value_heads = 0;  // where there are more of them than of the keys; 0: as many
  std::size_t m = 0;            // queries
  std::size_t n = 0;            // keys
  std::size_t d = 0;            // width of a query and key
  std::size_t e = 0;            // width of a value
  bool causal = false;
  std::span<const std::int32_t> key_lengths;  // empty = all n
  bool bias = false;                          // an additive bias is present
  bool bias_gradient = false;                 // and its gradient is wanted
  bool dropout = false;
  std::size_t history_length = 0;         // earlier tokens of each sequence, beside the n
  std::span<const std::uint8_t> globals;  // as in the mask
  bool notes = false;                     // on the first n − m tokens, see note_floats()
};

// How many keys before and after its own place p(i) = i + n − m a query sees.
struct Reach {
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  std::size_t before = kAll;
  std::size_t after = kAll;
};

struct AttentionCost {
  Work forward;
  Work backward;
  Work update;
  std::size_t saved = 0;             // floats kept from forward to backward
  std::size_t signals = 0;           // floats from backward to accumulate
  std::size_t forward_scratch = 0;   // bytes of arena while forward runs
  std::size_t backward_scratch = 0;  // bytes of arena while backward runs
};

struct AttentionInputs {
  ConstHeads q;
  ConstHeads k;
  ConstHeads v;
  std::span<const ConstHeads> more = {};  // given streams behind q, k and v
  // For streams on call: the layer's input [batch·n, d_model]; inputs of earlier tokens
  // [batch·history_length, d_model].
  ConstMatrix x;
  ConstMatrix history;
  Mask mask;
  Dropout dropout;         // of the attention weights; plane = b·heads + h, element (i, j)
  std::span<float> notes;  // decoding: note_floats() of a shape whose n is the cache's capacity
  // Of the keys, [batch·n]; empty: all are of one type.
  std::span<const std::int32_t> token_types = {};
};

struct AttentionGradients {
  Heads q;
  Heads k;
  Heads v;
  TableView<float> bias = {};  // same strides as the bias; shared planes receive the sum
  Matrix x = {};               // set to what reaches x through streams on call
  std::span<const Heads> more = {};
};

// y = mechanism(in). `saved` holds cost().saved floats, or is empty when no backward follows; the
// scratch is the same either way.
struct ForwardCall {
  const AttentionInputs& in;
  Heads y;
  std::span<float> saved;
  Arena& arena;
};

// Sets grad.q, grad.k and grad.v to ∂L/∂q, ∂L/∂k and ∂L/∂v given dy = ∂L/∂y; adds to grad.bias.
// Fills the cost().signals floats that accumulate needs; q, k and v are the same, x is not given.
struct BackwardCall {
  const AttentionInputs& in;
  ConstHeads y;
  ConstHeads dy;
  std::span<const float> saved;
  const AttentionGradients& grad;
  std::span<float> signals;
  Arena& arena;
};

struct Abilities {
  bool exact = false;
  bool causal = false;
  bool cross = false;   // m ≠ n
  bool pooled = false;  // queries are pooled from the tokens of the keys: m < n, without cross
  bool key_lengths = false;
  bool bias = false;
  bool boolean_mask = false;
  bool dropout = false;
  bool grouped_heads = false;
  bool decode = false;
  bool shared_qk = false;      // keys are the queries: in.k is in.q, and grad.q receives both parts
  bool value_heads = false;    // more heads of values than of keys
  bool reads_padding = false;  // what it gives of a sequence depends on how far that is padded
  std::string_view not_causal = {};  // why it is not, for the refusal

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

// Where a mechanism is used.
struct AttentionSite : AttentionLayout {
  Parameters& parameters;
  const Projections& projections;  // for streams on call
};

class Attention {
 public:
  virtual ~Attention() = default;
  virtual std::string_view name() const = 0;
  const Abilities& abilities() const { return abilities_; }
  // Before step `step` of training: draws random features again when it is time, and forgets what
  // was gathered since the last: by a step that diverged, or for a measurement.
  virtual void begin_step(std::uint64_t /*step*/) {}
  // After a step that moved the weights: takes what accumulate gathered, of all its batches, into
  // buffers of its own (centroids).
  virtual void end_step() {}
  virtual AttentionCost cost(const AttentionShape& shape) const = 0;

  void forward(const ForwardCall& call) const;
  void backward(const BackwardCall& call) const;

  // Adds to the gradients of its own parameters.
  void accumulate(const AttentionInputs& in, std::span<const float> saved,
                  std::span<const float> signals) const;

  // Floats of a state that stands for all earlier keys and values, whatever their number; zeros are
  // the state before the first. 0: the mechanism has none and reads a cache of keys and values. The
  // sequences of a batch lie one behind the other in it.
  virtual std::size_t state_floats(const AttentionShape& /*shape*/) const { return 0; }
  // y of tokens that follow those in the state, which takes them in.
  void decode(const AttentionInputs& in, Heads y, std::span<float> state, Arena& arena) const;
  virtual AttentionCost decode_cost(const AttentionShape& shape) const { return cost(shape); }

  // How many earlier tokens a causal forward of the last ones reads: a cache may forget the others.
  virtual std::size_t reads_back() const { return Reach::kAll; }

  // Floats that a cache has beside its keys and values, for what else the mechanism wants to know
  // of earlier tokens, their hashes for instance. A causal forward of the last m of n tokens finds
  // the notes on the first n − m and adds those on its own. Either the sequences lie one behind the
  // other, or the notes belong to all and are as many for any batch.
  virtual std::size_t note_floats(const AttentionShape& /*shape*/) const { return 0; }

  // Heads of what it gives, and their width; its streams state the same. Most give a value's width
  // for every head of the queries, or of the values where these are more.
  struct Output {
    std::size_t heads;
    std::size_t width;
  };
  virtual Output output(const AttentionShape& shape) const;

  // Throws Error where the mechanism cannot do what the shape, mask or memory asks.
  void check(const AttentionShape& shape) const;

  // Nothing runs, but dry, before these have memory.
  void wait_for(const Parameters& parameters) { parameters_ = &parameters; }

 protected:
  explicit Attention(const Abilities& abilities) : abilities_(abilities) {}

 private:
  // Dry: a mechanism is one call, and its promise is its cost.
  void heard(Op op, const AttentionShape& shape, const Work& work) const;
  void hand_over(Op op, const AttentionShape& shape, Work AttentionCost::*work, Arena& arena) const;
  // Whether it runs dry; else there must be memory.
  bool dry() const;
  // What else the mechanism refuses; and before a model runs, what the machine cannot hold.
  virtual void check_more(const AttentionShape& /*shape*/) const {}
  virtual void check_memory(const AttentionShape& /*shape*/) const {}
  virtual void run_forward(const ForwardCall& call) const = 0;
  virtual void run_backward(const BackwardCall& call) const = 0;
  virtual void run_accumulate(const AttentionInputs& /*in*/, std::span<const float> /*saved*/,
                              std::span<const float> /*signals*/) const {}
  virtual void run_decode(const AttentionInputs& in, Heads y, std::span<float> state,
                          Arena& arena) const;

  Abilities abilities_;
  const Parameters* parameters_ = nullptr;
};

AttentionShape shape_of(const AttentionInputs& in);

// Queries × keys that are visible by causality and length, summed over the batch, for one head.
std::uint64_t visible_pairs(const AttentionShape& shape);
// Queries × tiles of `tile` keys in which the query sees at least one; visible_pairs has tile = 1.
// With a bounded reach m ≤ n.
std::uint64_t visible_tiles(const AttentionShape& shape, std::size_t tile, const Reach& reach = {});
// Keys that are not padding, summed over the batch.
std::uint64_t real_keys(const AttentionShape& shape);

}  // namespace longspan
