// Attention among tokens whose hashes agree (Reformer; Kitaev et al., 2020, arXiv:2001.04451).
//
// Queries and keys are the same vectors: k_j = q_j/‖q_j‖. In each of R rounds
//
//   bucket_r(i) = argmax([q_i·R_r; −q_i·R_r])          R_r: d × b/2 Gaussian, from the seed
//   tokens are sorted by (bucket, position) and cut into chunks of m
//   a chunk sees itself, `before` chunks before and `after` behind it, and of those the tokens
//     that are no padding, of the same bucket, and not later if causal
//   y_i = Σ_r Σ_j e^(s_ij − L_i)/c_ij·v_j,   s_ij = q_i·k_j/√d,   L_i = log Σ_r Σ_j e^s_ij/c_ij
//
// where c_ij counts the rounds in which i and j meet, so that a pair weighs once; this is the
// paper's combination of rounds by their logsumexp. A token sees itself only if it sees nobody else
// in any round, and then y_i = v_i: the limit of the −10⁵ that public implementations write there.
//
// Where the chunks are cut depends on every token of the sequence, later ones too. `strict`, which
// is the default for causal sequences, therefore lets a query see the last before·m tokens of its
// bucket, wherever the cut falls: no output depends on a later token.
//
// Decoding keeps, beside keys and values, the buckets and f of every token. The row of a token is
// the one that the whole sequence up to it has: its places follow from a counting sort of the n
// cached buckets, its keys are gathered. With `strict` this is also the row of any longer sequence,
// so that a model decodes what it computes at once. Without, later tokens move the cuts: decoding
// leaves earlier rows with the cuts of their moment, so that it agrees in one layer, but not
// through a stack of them. The number of buckets is that of max_length, whatever the present
// length.
//
// Counts of a sequence, T tokens that are sorted, p pairs of the chunks and their neighbours,
// γ tokens gathered for them by all groups of a round, P = Σ b/2 projections of a round:
//
//   forward   MACCs    T·d + R·(T·P·d + p·(d + e))
//             matmul   3·T                         √, division and scale of f_j
//             hash     R·T·P                       comparisons
//             sort     2·R·T                       counting, placing
//             softmax  R·(5p + T·(2e + 6)) + 2·T   scale, maximum, difference, power, sum; joining
//                      + R·p·(R + 1)               comparisons for c and the division by it
//   backward  MACCs    T·(d + e) + R·(p·(3d + 2e) + γ·d)
//             matmul   4·T                         f and κ
//             sort     2·R·T
//             softmax  R·6p + R·p·(R + 1)
//             add      R·(T·d + γ·(3d + e))
//
// Decoding m of n tokens, H that are hashed (m, or n without notes), and κ keys of a row, which are
// R·min(n, before·m) if strict and R·min(n, m)·(before + 1 + after) if not, seen or not:
//
//   forward   MACCs    H·d + R·H·P·d + m·κ·(d + e)
//             matmul   3·H + m·κ·d                 f_j·k_j
//             hash     R·H·P
//             sort     2·R·n
//             softmax  m·(5κ + 2e + 2) + m·κ·(R + 1)
//
// Pairs of different buckets are skipped where a group of queries has none; they count all the
// same. Threads: (sequence, head, 256 tokens) to hash, (sequence, head, round) to sort, (sequence,
// head, group of chunks) to attend.
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/attention/shown.h"
#include "longspan/base/choice.h"
#include "longspan/kernels/hash/hash.h"
#include "longspan/kernels/sparse/chunk_attention.h"

namespace longspan {

enum class ReformerScaling : std::uint8_t {
  kPaper,
  kTrax,  // k_j = q_j/rms(q_j)/√d and s = q·k, √d times as large
};
constexpr Names<2> names_of(ReformerScaling /*kind*/) {
  return {"reformer", "scaling", {"paper", "trax"}};
}

// What becomes of padded tokens.
enum class ReformerPadding : std::uint8_t {
  kSkip,    // not sorted, output 0
  kBucket,  // sorted last, seeing but unseen
  kHash,    // sorted as all, output v
};
constexpr Names<3> names_of(ReformerPadding /*kind*/) {
  return {"reformer", "padding", {"skip", "bucket", "hash"}};
}

struct ReformerConfig {
  std::size_t chunk = 64;        // m
  std::size_t rounds = 4;        // R
  std::string buckets = "auto";  // b of a round, even, or a product of factors: "16x8"
  std::size_t before = 1;        // neighbouring chunks that are seen
  std::size_t after = 0;
  Choice<ReformerScaling> scaling = ReformerScaling::kPaper;
  bool same_bucket = true;  // see tokens of the own bucket only
  bool deduplicate = true;  // a pair that meets in several rounds weighs once
  Choice<Wrap> wrap = Wrap::kNone;
  bool strict = true;  // causal: nothing depends on later tokens
  Choice<ReformerPadding> padding = ReformerPadding::kSkip;
  std::uint64_t seed = 1;

  bool operator==(const ReformerConfig&) const = default;
  void show_at(std::size_t tokens) { chunk = shown_size(tokens / 8, chunk); }
  template <class See>
  void visit(See see) {
    see("chunk", chunk, "tokens of a chunk, m", from_to(1, 1e7));
    see("rounds", rounds, "hashes of every token, R", from_to(1, 100));
    see("buckets", buckets, "of a round, even; 16x8 multiplies two hashes; auto: twice the chunks");
    see("before", before, "chunks before the own one that are seen", from_to(0, 1e7));
    see("after", after, "chunks behind it", from_to(0, 1e7));
    see("scaling", scaling, "trax: scores √d times as large, as Trax has them");
    see("same_bucket", same_bucket, "see tokens of the own bucket only");
    see("deduplicate", deduplicate, "a pair that meets in several rounds weighs once");
    see("wrap", wrap, "what the first chunk of a round has before it");
    see("strict", strict, "causal: no output depends on a later token");
    see("padding", padding, "what becomes of padded tokens");
    see("seed", seed, "of the rotations that hash");
  }
};

class ReformerAttention final : public Attention {
 public:
  static constexpr std::string_view kName = "reformer";
  static constexpr std::string_view kEquations =
      "k_j = q_j/‖q_j‖;  bucket_r(i) = argmax([q_i·R_r; −q_i·R_r])   in each of R rounds\n"
      "y_i = Σ_r Σ_j e^(s_ij − L_i)/c_ij·v_j,   s_ij = q_i·k_j/√d\n"
      "over the tokens j of the bucket in the own chunk and its neighbours";
  // Declares the constant "<site>.rotations", [heads·d, R·P]: a round's projections side by side.
  ReformerAttention(const ReformerConfig& config, const AttentionSite& site);
  static Abilities can(const ReformerConfig& config);
  static Streams streams(const ReformerConfig& /*config*/, const AttentionLayout& layout) {
    return Streams::shared_qk(layout);
  }
  std::string_view name() const override { return kName; }
  AttentionCost cost(const AttentionShape& shape) const override;
  std::size_t note_floats(const AttentionShape& shape) const override;
  const ReformerConfig& config() const { return config_; }
  // The hash of a model whose sequences have up to `max_length` tokens.
  LshCode code(std::size_t max_length) const;
  // How the tokens of sequence b are cut into chunks.
  ChunkLayout layout(const AttentionShape& shape, std::size_t b) const;
  // The buckets [batch, heads, rounds, n] that forward kept.
  static std::span<const float> saved_buckets(std::span<const float> saved,
                                              const AttentionShape& shape);

 private:
  class Run;
  class Rows;  // of decoding

  // Key j is f_j·q_j, logits included; κ is what the derivative of f takes off.
  struct Factor {
    float f;
    float kappa;
  };
  Factor factor(std::span<const float> q) const;
  // Whether only the last m of n tokens are asked for, or notes are kept.
  static bool decodes(const AttentionShape& s) { return s.notes || s.m < s.n; }
  bool strict(const AttentionShape& s) const { return s.causal && config_.strict; }
  AttentionCost rows_cost(const AttentionShape& shape) const;
  void run_rows(const AttentionInputs& in, Heads y, Arena& arena) const;

  void check_more(const AttentionShape& shape) const override;
  void run_forward(const ForwardCall& call) const override;
  void run_backward(const BackwardCall& call) const override;

  ReformerConfig config_;
  LshCode explicit_;  // buckets that the config names; no factors if it does not
  std::size_t max_length_;
  const Parameter* rotations_;
};

}  // namespace longspan
