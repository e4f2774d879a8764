// The pattern of a sliding window: one band of keys for each tile of queries.
#pragma once

#include <array>
#include <limits>

#include "longspan/attention/pattern/block_sparse.h"

namespace longspan {

class WindowPattern : public BlockPattern {
 public:
  WindowPattern(const AttentionShape& shape, std::size_t before, std::size_t after,
                std::size_t dilation)
      : BlockPattern(shape), before_(before), after_(after), dilation_(dilation) {}

  std::size_t tiles(std::size_t b, std::size_t h) const override;
  PatternTile tile(std::size_t b, std::size_t h, std::size_t t,
                   std::span<KeyRange> room) const override;
  std::size_t most_ranges() const override { return 1; }
  std::size_t dilation(std::size_t /*h*/) const override { return dilation_; }
  std::size_t before() const override { return before_; }
  std::size_t after() const override { return after_; }

 protected:
  static constexpr std::size_t kNoCut = std::numeric_limits<std::size_t>::max();
  // The first token after `token` at which a new tile of queries begins whatever the one before
  // has.
  virtual std::size_t next_cut(std::size_t /*b*/, std::size_t /*token*/) const { return kNoCut; }

 private:
  // Phases [begin, end) that have so many queries each.
  struct Phases {
    std::size_t begin;
    std::size_t end;
    std::size_t rows;
  };
  // Where a tile's queries are: rows of a phase.
  struct Place {
    std::size_t phase = 0;
    std::size_t first = 0;
    std::size_t lanes = 0;
  };
  // Whether no new tile begins but where one is full. Then its place is known without looking at
  // the phases before it, which may be as many as there are tokens.
  bool uncut(std::size_t b) const;
  std::array<Phases, 3> equal_phases(std::size_t b, std::size_t step) const;
  Place place(std::size_t b, std::size_t step, std::size_t t) const;
  // Calls f(first, last) with the real queries of a phase between two cuts, as rows of it.
  template <class F>
  void for_each_piece(std::size_t b, std::size_t step, std::size_t phase, F f) const;

  std::size_t before_;
  std::size_t after_;
  std::size_t dilation_;
};

}  // namespace longspan
