// What the mechanisms with a fixed pattern share: a pattern says which keys each tile of queries
// sees, and this runs forward and backward over it with the kernels of block_sparse.h.
//
// Counts, with the visible pairs p (query × key), τ (query × tile of keys in which it sees one), M
// the real queries, all summed over heads, and ρ rows of partial sums:
//
//   forward   MACCs    p·(d + e)
//             matmul   M·d                        scaling q
//             softmax  4p + (e + 3)·(τ + M)       as in flash.h
//             dropout  p
//   backward  MACCs    p·(3d + 2e) + M·e          five products; D = dy·y
//             matmul   M·(d + e + 1)              scaling q, dy and D
//             softmax  4p
//             add      ρ·(d + e)                  sums of partial dk and dv
//             dropout  2p
//
// Relative terms (deberta.h, transformer_xl.h, funnel.h) with t = Σ query × bucket of the table T,
// whose rows are d′ wide, add t·d′ MACCs, M·d′ of matmul and a sum per pair and term to forward;
// 3·t·d′ MACCs, M·d′ of matmul and 2·p·terms + M·d′ + ρ′ of add to backward, where ρ′ sums partial
// gradients of both tables. Pairs with gathered keys have none. Where the table meets the keys too
// (relative_key.h), t has key × bucket of the bands besides.
//
// Threads: forward takes (sequence, head, 8 tiles of queries), as many key heads at a time as there
// are threads, whose keys and values are copied head by head; backward (sequence, key head, chunk
// of the queries), where a number of chunks that only the shape decides each have their own sums.
// Padding: the queries of padding see nothing, their y is 0.
#pragma once

#include "longspan/attention/attention.h"
#include "longspan/kernels/sparse/block_sparse.h"

namespace longspan {

// Rows of the tile's head: every dilation-th token from `phase` on.
struct PatternTile {
  QueryTile tile;
  std::size_t phase = 0;
  std::ptrdiff_t shift = 0;  // its queries are so much farther among the keys than n − m
};

// The lists of keys for a shape. Tokens are positions among the keys: query i is at i + n − m.
class BlockPattern {
 public:
  explicit BlockPattern(const AttentionShape& shape) : shape_(shape) {}
  virtual ~BlockPattern() = default;
  BlockPattern(const BlockPattern&) = delete;
  BlockPattern& operator=(const BlockPattern&) = delete;

  const AttentionShape& shape() const { return shape_; }
  // Keys that are not padding, and queries likewise.
  std::size_t keys(std::size_t b) const {
    return shape_.key_lengths.empty() ? shape_.n : static_cast<std::size_t>(shape_.key_lengths[b]);
  }
  virtual std::size_t queries(std::size_t b) const {
    const std::size_t padding = shape_.n - keys(b);
    return padding < shape_.m ? shape_.m - padding : 0;
  }
  std::size_t offset() const { return shape_.n - shape_.m; }

  virtual std::size_t tiles(std::size_t b, std::size_t h) const = 0;
  // Tile t of (b, h), its ranges written to `room`, which has most_ranges() elements; a tile may be
  // empty.
  virtual PatternTile tile(std::size_t b, std::size_t h, std::size_t t,
                           std::span<KeyRange> room) const = 0;
  virtual std::size_t most_ranges() const = 0;
  virtual std::size_t dilation(std::size_t /*h*/) const { return 1; }
  // Positions from one query to the next; other than 1 only without banded ranges.
  virtual std::size_t stride() const { return 1; }
  // The band of banded ranges, in rows of the head.
  virtual std::size_t before() const { return shape_.n; }
  virtual std::size_t after() const { return shape_.causal ? 0 : shape_.n; }
  virtual const std::uint32_t* gathered(std::size_t /*b*/) const { return nullptr; }
  // Whether more than one or two tiles of queries read a key.
  virtual bool rereads() const { return true; }
  // Whether two heads of a sequence have as much to do; then one is counted for all.
  virtual bool equal_heads() const { return true; }

 private:
  AttentionShape shape_;
};

// Every key, as far as causality allows.
class FullPattern final : public BlockPattern {
 public:
  // With `all` the queries of padding see keys too: some losses read what they give.
  explicit FullPattern(const AttentionShape& shape, bool all = false)
      : BlockPattern(shape), all_(all) {}
  std::size_t queries(std::size_t b) const override {
    if (all_) return keys(b) > 0 ? shape().m : 0;
    return BlockPattern::queries(b);
  }
  std::size_t tiles(std::size_t b, std::size_t h) const override;
  PatternTile tile(std::size_t b, std::size_t h, std::size_t t,
                   std::span<KeyRange> room) const override;
  std::size_t most_ranges() const override { return 1; }

 private:
  bool all_;
};

// Terms of the scores that depend on distances, of all heads; see kernels/sparse/block_sparse.h.
struct RelativePlanes {
  const std::int32_t* bucket = nullptr;
  ConstHeads q;         // [batch, heads, m, d′]
  ConstHeads table;     // [batch (stride 0), heads, buckets, d′]
  ConstHeads keys;      // [batch, heads, n, buckets]
  ConstMatrix columns;  // of T for the terms k·T_b, of all heads

  std::size_t terms() const {
    return (table.n > 0 ? 1U : 0U) + (keys.n > 0 ? 1U : 0U) + (columns.rows > 0 ? 1U : 0U);
  }
};

struct RelativeGradients {
  Heads q;       // dqr, set; may be empty
  Matrix table;  // [batch·heads·buckets, tile_pitch(d′)], set
  Heads keys;    // [batch, heads, n, buckets], set
};

struct SparseInputs {
  ConstHeads q, k, v;
  float scale = 1.0F;
  Dropout dropout;
  RelativePlanes relative;

  // q, k and v with the scale 1/√d.
  static SparseInputs of(const AttentionInputs& in);
};

struct SparseResults {
  Heads dq, dk, dv;
  RelativeGradients relative;
};

// Sizes of the relative terms, for costs.
struct RelativeSizes {
  const std::int32_t* bucket = nullptr;  // as in RelativePlanes; null: no terms
  std::size_t table = 0;                 // buckets of T
  std::size_t keys = 0;                  // buckets of K·Uᵀ
  std::size_t width = 0;                 // of a row of T; 0: as a query
  bool columns = false;                  // the table meets the keys too
};

// cost() of a mechanism that is its pattern alone; others add to it.
AttentionCost sparse_cost(const BlockPattern& pattern, const RelativeSizes& relative = {});
void sparse_forward(const BlockPattern& pattern, const SparseInputs& in, Heads y,
                    std::span<float> saved, Arena& arena);
void sparse_backward(const BlockPattern& pattern, const SparseInputs& in, ConstHeads y,
                     ConstHeads dy, std::span<const float> saved, const SparseResults& results,
                     Arena& arena);

}  // namespace longspan
