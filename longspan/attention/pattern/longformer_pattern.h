// Which keys the local and the global queries of longformer.h see.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "longspan/attention/pattern/longformer.h"
#include "longspan/attention/pattern/window_pattern.h"

namespace longspan {

// The global tokens of each sequence, sorted.
struct LongformerGlobals {
  std::span<const std::uint32_t> first;  // [batch + 1]
  std::span<const std::uint32_t> tokens;
  std::size_t most = 0;   // of a sequence
  std::size_t reach = 0;  // keys that their queries see: all, or up to the last of them if causal

  std::span<const std::uint32_t> of(std::size_t b) const {
    return tokens.subspan(first[b], first[b + 1] - first[b]);
  }
  // How many are before `token`.
  std::size_t before(std::size_t b, std::size_t token) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(of(b), token) - of(b).begin());
  }
  // The end of the run of neighbours that starts at number i.
  std::size_t run_end(std::size_t b, std::size_t i) const {
    const std::span<const std::uint32_t> all = of(b);
    for (++i; i < all.size() && all[i] == all[i - 1] + 1;) ++i;
    return i;
  }
};

// The window without the global keys, and all global keys that a query may see. Rows of global
// queries are not wanted, so that of a causal sequence all queries up to the end of a run of global
// tokens see the globals before the run, and those behind it the run as well: tiles are cut there.
class LongformerPattern final : public WindowPattern {
 public:
  LongformerPattern(const LongformerAttention& attention, const AttentionShape& shape,
                    const LongformerGlobals& globals)
      : WindowPattern(shape, attention.config().window / 2,
                      shape.causal ? 0 : attention.config().window / 2, 1),
        attention_(attention),
        globals_(globals) {}

  std::size_t dilation(std::size_t h) const override { return attention_.dilation(h); }
  bool equal_heads() const override { return attention_.one_dilation(); }
  std::size_t most_ranges() const override { return globals_.most + 2; }
  const std::uint32_t* gathered(std::size_t b) const override { return globals_.of(b).data(); }
  PatternTile tile(std::size_t b, std::size_t h, std::size_t t,
                   std::span<KeyRange> room) const override;

 private:
  std::size_t next_cut(std::size_t b, std::size_t token) const override;

  const LongformerAttention& attention_;
  const LongformerGlobals& globals_;
};

// Global queries, as many as each sequence has, against all keys, or those up to themselves.
class GlobalPattern final : public BlockPattern {
 public:
  GlobalPattern(const AttentionShape& shape, const LongformerGlobals& globals)
      : BlockPattern(between(shape, globals)), globals_(globals) {}

  std::size_t queries(std::size_t b) const override { return globals_.of(b).size(); }
  std::size_t tiles(std::size_t b, std::size_t h) const override;
  PatternTile tile(std::size_t b, std::size_t h, std::size_t t,
                   std::span<KeyRange> room) const override;
  std::size_t most_ranges() const override { return 1; }

 private:
  static AttentionShape between(AttentionShape shape, const LongformerGlobals& globals) {
    shape.m = globals.most;
    shape.n = globals.reach;
    return shape;
  }
  // Calls f(first, last) with the queries that share tiles: neighbours if causal, else all.
  template <class F>
  void for_each_piece(std::size_t b, F f) const;

  const LongformerGlobals& globals_;
};

}  // namespace longspan
