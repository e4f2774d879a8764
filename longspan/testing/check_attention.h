// Checks that every attention mechanism must pass, from its abilities; exact ones are also compared
// with the reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "longspan/attention/attention.h"
#include "longspan/attention/full_ref.h"

namespace longspan::testing {

enum class BiasKind : std::uint8_t { kNone, kOwn, kPerHead, kPerSequence, kShared };

// One problem, in words.
struct AttentionCase {
  std::size_t batch = 1, heads = 1, kv_heads = 1;
  std::size_t m = 1, n = 1, d = 1, e = 1;
  bool causal = false;
  std::vector<std::int32_t> key_lengths = {};
  BiasKind bias = BiasKind::kNone;
  bool visible = false;  // a random boolean mask in which some rows see nothing
  float dropout = 0.0F;
  bool columns = false;  // heads side by side in the columns of a matrix, as layers have them

  std::string name() const;
};

// Its tensors, random from a fixed seed, and everything that a mechanism makes of them.
class AttentionProblem {
 public:
  explicit AttentionProblem(const AttentionCase& c, std::uint64_t seed = 1);

  AttentionShape shape() const;
  AttentionInputs inputs() const;
  FullReference<double> reference() const;

  // Runs forward, and backward when `gradients`; arenas are as large as the cost says.
  void run(const Attention& attention, bool gradients = true);

  // Element [b, h, i, c] of a tensor, whatever its layout.
  static std::vector<double> dense(ConstHeads x);

  AttentionCase c;
  std::vector<float> q, k, v, bias, dy;
  std::vector<std::uint8_t> visible;
  std::vector<float> y, saved, dq, dk, dv, dbias;
  std::size_t forward_peak = 0, backward_peak = 0;
  Work forward_work, backward_work;

  Heads heads(std::vector<float>& x, std::size_t heads_, std::size_t n, std::size_t width) const;
  ConstHeads heads(const std::vector<float>& x, std::size_t heads_, std::size_t n,
                   std::size_t width) const;
};

// The largest |a − b|, relative to the largest |b|.
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

// Cases of every combination that the abilities allow, at sizes around a tile.
std::vector<AttentionCase> cases_for(const Abilities& abilities);

// Values and gradients against the double reference.
void check_exact(const Attention& attention, const AttentionCase& c);
// The meter and the arena against cost().
void check_cost(const Attention& attention, const AttentionCase& c);
// One, two and three threads give the same bits, and cost what cost() says.
void check_threads(const Attention& attention, const AttentionCase& c);
// Tokens from t on do not change outputs before t.
void check_causal(const Attention& attention, const AttentionCase& c);
// Tokens beyond the key lengths change nothing, whether overwritten or cut off.
void check_padding(const Attention& attention, const AttentionCase& c);
// A sequence does not see its neighbours in the batch.
void check_batch(const Attention& attention, const AttentionCase& c);
// Heads in columns and heads in planes give the same bits.
void check_layout(const Attention& attention, const AttentionCase& c);

// All of the above, as far as the abilities go.
void check_attention(const Attention& attention);

}  // namespace longspan::testing
