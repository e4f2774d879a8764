// A residual branch: y = f(x), the part of a block between a norm and the residual addition.
//
// Three calls, so that every learning rule can use them: forward; backward, the signal to the
// input; accumulate, the signal to the parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "longspan/base/arena.h"
#include "longspan/base/call.h"
#include "longspan/base/place.h"
#include "longspan/base/random.h"
#include "longspan/base/view.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/layers/history.h"

namespace longspan {

// What self-attention remembers of the tokens seen so far: their keys and values, [batch, kv_heads,
// capacity, d_head] each, with the mechanism's notes on them, or its own state of fixed size.
struct KeyValueCache {
  Heads k;
  Heads v;
  std::span<float> notes;
  std::span<float> state;
  std::size_t batch = 0;
  std::size_t capacity = 0;  // tokens
  std::size_t used = 0;

  void clear() {
    used = 0;
    fill({state.data(), 1, state.size()}, 0.0F);
  }
};

// One pass over a batch of sequences of equal (padded) length.
struct Pass {
  std::size_t batch = 0;
  std::size_t length = 0;                 // tokens per sequence
  std::span<const std::int32_t> lengths;  // real tokens of each sequence; empty = all
  bool typed = false;                     // token types are given
  // Tokens that see and are seen by all, [batch·length]; empty = the mechanism's own choice.
  std::span<const std::uint8_t> globals;
  // Self-attention with a memory of earlier segments: that of each layer, of the layer itself, and
  // how many tokens of each sequence it holds.
  std::span<History> histories;
  History* history = nullptr;
  std::size_t history_length = 0;
  // Cross-attention reads these: [batch·memory_length, d].
  ConstMatrix memory;
  Matrix memory_gradient;  // receives +=
  std::size_t memory_length = 0;
  std::span<const std::int32_t> memory_lengths;
  // Dropout, active only where `training`.
  bool training = false;
  RandomKey key = 0;
  // Set while a reversible stack computes a branch again on the way back.
  bool recomputing = false;
  // The input carries an error: nothing of this pass is remembered.
  bool modulated = false;
  // Rules that compare two passes: a branch's last matrix learns from what the residual addition
  // gives, not from what the branch gives alone.
  bool compares_sums = false;
  // Decoding: the tokens of this pass follow those in the cache, which self-attention extends.
  KeyValueCache* cache = nullptr;

  std::size_t rows() const { return batch * length; }
  std::size_t memory_rows() const { return batch * memory_length; }
};

// Where the meter files what a rule that compares two passes does beyond them.
inline constexpr std::string_view kOverheadMeter = "rule overhead";
// The part of it that sends the error to the input, in place of a part of the model; the rest are
// differences of outputs.
inline constexpr std::string_view kErrorPart = "error";

// What a branch keeps from forward to backward; each kind of branch uses its own fields.
struct BranchSaved {
  Matrix projected;            // attention: q|k|v, or q;        feed-forward: z
  Matrix memory_projected;     // cross-attention: k|v of the memory
  Matrix combined;             // attention: the heads' outputs; feed-forward: h
  std::span<float> mechanism;  // what the attention mechanism saved
  Matrix adapted_in;           // x·Aᵀ of the adapters beside the projections, if there are any
  Matrix adapted_memory;
  Matrix adapted_out;
};

// Signals that backward finds on its way and accumulate needs.
struct BranchSignals {
  Matrix projected;
  Matrix memory_projected;
  std::span<float> mechanism;
  Matrix adapted_in;
  Matrix adapted_memory;
  Matrix adapted_out;
};

class Branch {
 public:
  virtual ~Branch() = default;
  // The name under which the meter files its work.
  virtual std::string_view meter_name() const = 0;

  // Before step `step` of training.
  virtual void begin_step(std::uint64_t /*step*/) {}
  // Throws Error where the branch cannot do what the pass asks.
  virtual void check(const Pass& pass) const = 0;
  virtual BranchSaved save(const Pass& pass, Arena& arena) const = 0;

  // With `saved` null nothing is kept: inference.
  virtual void forward(const Pass& pass, ConstMatrix x, Matrix y, const BranchSaved* saved,
                       Arena& arena) const = 0;
  // Sets dx and returns, in memory taken from the arena, what accumulate needs.
  virtual BranchSignals backward(const Pass& pass, const BranchSaved& saved, ConstMatrix dy,
                                 Matrix dx, Arena& arena) const = 0;
  virtual void accumulate(const Pass& pass, ConstMatrix x, const BranchSaved& saved, ConstMatrix dy,
                          const BranchSignals& signals) const = 0;

  // Rules without a backward pass compare a standard and a modulated pass (forward_learning.h in
  // models). Whether anything of the branch is trained:
  virtual bool trained() const = 0;
  // Memory for what its matrices give in the standard pass, and for what they give and receive in
  // the modulated one; forward fills either.
  virtual BranchSaved save_outputs(const Pass& pass, Arena& arena) const = 0;
  virtual BranchSaved save_modulated(const Pass& pass, Arena& arena) const = 0;
  // scale·(a − a_err) for every matrix but the last, in the memory of `standard`: what accumulate
  // needs beside the difference of the branch's output.
  virtual BranchSignals contrast(const Pass& pass, const BranchSaved& standard,
                                 const BranchSaved& modulated, float scale, Arena& arena) const = 0;
};

}  // namespace longspan
