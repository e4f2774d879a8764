// A residual branch: y = f(x), the part of a block between a norm and the residual addition.
//
// Three calls, so that every learning rule can use them: forward; backward, the signal to the
// input; accumulate, the signal to the parameters.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "longspan/base/arena.h"
#include "longspan/base/batch.h"
#include "longspan/base/call.h"
#include "longspan/base/place.h"
#include "longspan/base/random.h"
#include "longspan/base/view.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/layers/decode_cache.h"
#include "longspan/layers/history.h"

namespace longspan {

class Attention;
struct AttentionInputs;
struct Routing;

// One pass over a batch of sequences, padded to one length or packed (base/batch.h).
struct Pass {
  std::size_t batch = 0;
  std::size_t length = 0;                 // tokens per sequence, of the longest
  std::span<const std::int32_t> lengths;  // real tokens of each sequence; empty = all
  bool packed = false;                    // the context too
  // Tokens of every row, of a head that looks for one of them.
  std::span<const std::int32_t> tokens;
  bool typed = false;  // token types are given
  // They, of every row, for attention that reads them.
  std::span<const std::int32_t> token_types;
  // Tokens that see and are seen by all, of every row; empty = the mechanism's own choice.
  std::span<const std::uint8_t> globals;
  // Earlier tokens of each sequence that self-attention remembers.
  std::size_t history_length = 0;
  // Cross-attention reads these: [context_rows(), d].
  ConstMatrix context;
  std::size_t context_length = 0;
  std::span<const std::int32_t> context_lengths;
  std::span<const std::int32_t> context_types;  // as token_types
  // Dropout, active only where `training`.
  bool training = false;
  RandomKey key = 0;

  std::size_t rows() const { return packed ? packed_rows(lengths) : batch * length; }
  std::size_t context_rows() const {
    return packed ? packed_rows(context_lengths) : batch * context_length;
  }
};

// What travels beside a pass through a branch: what outlives it, and what it leaves elsewhere.
struct Beside {
  // Inputs of earlier segments; those of this one are recorded where it `records`.
  History* history = nullptr;
  bool records = true;
  // Decoding: the tokens of this pass follow those in the cache, which the branch fills.
  DecodeCache* cache = nullptr;
  Matrix context_gradient = {};  // of Pass::context, receives +=
  Routing* routing = nullptr;    // of experts: what they computed, and their loss
};

// What one call of a branch leaves for another, in the order that its kind gives it.
struct Kept {
  std::array<Matrix, 9> matrices{};
  std::array<std::span<std::int32_t>, 6> indices{};

  Matrix& operator[](std::size_t i) { return matrices[i]; }
  const Matrix& operator[](std::size_t i) const { return matrices[i]; }
};

struct BranchForward {
  const Pass& pass;
  ConstMatrix x;
  Matrix y;
  const Kept* saved;  // null: nothing is kept, inference
  const Beside& beside;
  Arena& arena;
};

struct BranchBackward {
  const Pass& pass;
  const Kept& saved;
  ConstMatrix dy;
  Matrix dx;
  const Beside& beside;
  Arena& arena;
};

struct BranchUpdate {
  const Pass& pass;
  ConstMatrix x;
  const Kept& saved;
  ConstMatrix dy;
  const Kept& signals;
  const Beside& beside;
};

// Where the meter files what a rule that compares two passes does beyond them.
inline constexpr std::string_view kOverheadMeter = "rule overhead";

// What rules without a backward pass ask of a branch: they compare a standard and a modulated pass
// (learning/forward_learning.h).
class Contrastive {
 public:
  virtual ~Contrastive() = default;
  // Memory for what its matrices give in the standard pass, and for what they give and receive in
  // the modulated one; forward fills either.
  virtual Kept save_outputs(const Pass& pass, Arena& arena) const = 0;
  virtual Kept save_modulated(const Pass& pass, Arena& arena) const = 0;
  // scale·(a − a_err) for every matrix but the last, in the memory of `standard`: what accumulate
  // needs beside the difference of the branch's output.
  virtual Kept contrast(const Pass& pass, const Kept& standard, const Kept& modulated, float scale,
                        const Beside& beside, Arena& arena) const = 0;
};

class Branch {
 public:
  // Is shown what a mechanism is given, before every forward; empty: nobody.
  using Observer = std::function<void(const AttentionInputs&)>;

  virtual ~Branch() = default;
  // The name under which the meter files its work.
  virtual std::string_view meter_name() const = 0;

  // Before and after step `step` of training.
  virtual void begin_step(std::uint64_t /*step*/) {}
  virtual void end_step() {}
  // Throws Error where the branch cannot do what the pass asks.
  virtual void check(const Pass& pass) const = 0;
  // Takes the memory of what forward leaves for backward.
  virtual Kept save(const Pass& pass, Arena& arena) const = 0;

  virtual void forward(const BranchForward& call) const = 0;
  // Sets dx and returns, in memory taken from the arena, what accumulate needs.
  virtual Kept backward(const BranchBackward& call) const = 0;
  virtual void accumulate(const BranchUpdate& call) const = 0;

  // Whether anything of the branch is trained.
  virtual bool trained() const = 0;
  // Null: its passes cannot be compared.
  virtual const Contrastive* contrastive() const { return nullptr; }

  // Whether it can go on token by token.
  virtual bool decodes() const { return true; }
  // Whether it takes packed passes: it reads every row by itself, or goes from run to run (runs.h).
  virtual bool packs() const { return false; }
  // Whether what it gives of a sequence depends on how far that is padded.
  virtual bool reads_padding() const { return false; }
  // What that takes for `capacity` tokens which read `context` others: sets floats, zeroed and parts.
  virtual void size_cache(std::size_t /*context*/, DecodeCache& /*cache*/) const {}

  // Of branches that are attention; null and nothing for others.
  virtual Attention* mechanism() { return nullptr; }
  virtual bool remembers() const { return false; }  // earlier segments
  virtual void set_observer(Observer /*observer*/) {}
  // Of branches among whose parts the data choose: how many there are; 0 for others.
  virtual std::size_t experts() const { return 0; }
  // Whether its output takes dropout in training, before the residual addition.
  virtual bool drops_output() const { return true; }
};

}  // namespace longspan
