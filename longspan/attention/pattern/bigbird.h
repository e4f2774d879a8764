// BigBird (Zaheer et al., 2020, arXiv:2007.14062): global, window and random blocks of keys.
//
//   y_i = Σ_j softmax_j(q_i·k_j/√d)·v_j   over the keys j of the blocks that block(i) sees
//
// A sequence is B blocks of `block` tokens, the last one perhaps shorter. Block t sees
//
//   internal globals (ITC)   0 and B − 1, and these two see every block
//   window                   t − w … t + w, w = ⌊window/2⌋
//   random                   `random` others, drawn per head without replacement from those that
//                            are neither global nor in the window
//
// With `etc` = g > 0 (ETC) the first g tokens are the global ones instead, extra tokens that the
// input carries for that purpose: they see and are seen by everything, the blocks begin behind
// them, and no block is random. The list of a block is sorted and without repetition, so that no
// key counts twice; where the blocks cover everything this is full attention.
//
// Causal (an extension of the paper): what is in the list and not later than the query. Then only
// block 0 is global, and random blocks are drawn from the earlier ones, so that a longer sequence
// changes nothing and decoding from a cache gives what prediction at once gives.
//
// Padding: B counts the blocks of a sequence's own tokens, so that padding changes nothing. With
// `padded` it counts those of the padded length, as Hugging Face does.
//
// Exact for the keys it looks at. Counts: block_sparse.h with p ≈ n·(2 + window + random)·block.
#pragma once

#include <vector>

#include "longspan/attention/attention.h"
#include "longspan/attention/pattern/pattern.h"
#include "longspan/attention/shown.h"
#include "longspan/base/number.h"

namespace longspan {

struct BigBirdConfig {
  static constexpr std::size_t kMostRandom = 64;

  std::size_t block = 64;
  std::size_t window = 3;  // blocks
  std::size_t random = 3;  // blocks
  std::size_t etc = 0;     // global tokens in front; 0: the first and the last block
  std::uint64_t seed = 0;
  bool padded = false;

  bool operator==(const BigBirdConfig&) const = default;
  void show_at(std::size_t tokens) { block = shown_size(tokens / 16, block); }
  template <class See>
  void visit(See see) {
    see("block", block, "tokens of a block; multiples of 64 fill the tiles", from_to(1, 1e7));
    see("window", window, "blocks of the window, an odd number", from_to(1, 1e7));
    see("random", random, "blocks that are drawn, by head and layer", from_to(0, kMostRandom));
    see("etc", etc, "global tokens in front, and nothing random; 0: the first and the last block",
        from_to(0, 1e7));
    see("seed", seed, "of the draw");
    see("padded", padded, "count blocks over the padded length, as Hugging Face does");
  }
};

// Random blocks that somebody else drew: [heads, B − 2, random], row t − 1 for block t.
struct RandomBlocks {
  std::vector<std::int32_t> blocks;
  std::size_t rows = 0;  // B − 2
};

class BigBirdAttention final : public Attention, public FixedPattern {
 public:
  static constexpr std::string_view kName = "bigbird";
  static constexpr std::string_view kEquations =
      "y_i = Σ_j softmax_j(q_i·k_j/√d)·v_j\n"
      "over the first block, the last, the window t − w … t + w of the own block t\n"
      "(w = ⌊window/2⌋) and random others";
  BigBirdAttention(const BigBirdConfig& config, const AttentionSite& site)
      : Attention(can(config)), config_(config), layer_(site.layer) {}
  static Abilities can(const BigBirdConfig& config);
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;
  std::string_view reason(const AttentionShape& shape, std::size_t head, std::size_t i,
                          std::size_t j) const override;

  const BigBirdConfig& config() const { return config_; }
  // Instead of drawing.
  void use(RandomBlocks blocks) { given_ = std::move(blocks); }

  // The blocks that block `t` of `blocks` draws for a head; written to `out`, returns their number.
  std::size_t draw(std::size_t head, std::size_t t, std::size_t blocks, bool causal,
                   std::span<std::size_t> out) const;

 private:
  friend class BigBirdPattern;
  void check_more(const AttentionShape& shape) const override;
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;

  BigBirdConfig config_;
  RandomBlocks given_;
  std::size_t layer_ = 0;  // each layer draws its own
};

}  // namespace longspan
