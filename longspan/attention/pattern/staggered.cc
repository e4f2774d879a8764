#include "longspan/attention/pattern/staggered.h"

#include <algorithm>

#include "longspan/attention/pattern/block_sparse.h"
#include "longspan/base/integers.h"

namespace longspan {

// A tile of queries is of global tokens, or within one block.
class StaggeredAttention::Pattern final : public BlockPattern {
 public:
  Pattern(const StaggeredAttention& mechanism, const AttentionShape& shape)
      : BlockPattern(shape),
        block_(mechanism.config_.block),
        shift_(mechanism.shift_),
        globals_(mechanism.config_.globals) {}

  bool rereads() const override { return globals_ > 0 || block_ > 2 * kQueryBlock; }
  std::size_t tiles(std::size_t b, std::size_t /*h*/) const override {
    return global_tiles(b) + divide_up(locals(b) > 0 ? locals(b) + shift_ : 0, block_) * parts();
  }
  PatternTile tile(std::size_t b, std::size_t /*h*/, std::size_t t,
                   std::span<KeyRange> room) const override {
    PatternTile result;
    if (t < global_tiles(b)) {
      result.tile.first = t * kQueryBlock;
      result.tile.lanes = std::min(kQueryBlock, globals(b) - result.tile.first);
      room[0] = {0, keys(b)};
      result.tile.ranges = room.first(1);
      return result;
    }
    const std::size_t block = (t - global_tiles(b)) / parts();
    const std::size_t part = (t - global_tiles(b)) % parts();
    // The block, from global tokens on; the first may have lost its beginning.
    const std::size_t begin = globals_ + std::max(block * block_, shift_) - shift_;
    const std::size_t end = std::min(globals_ + (block + 1) * block_ - shift_, keys(b));
    result.tile.first = std::min(begin + part * kQueryBlock, end);
    result.tile.lanes = std::min(kQueryBlock, end - result.tile.first);
    if (begin == globals_ || globals_ == 0) {
      room[0] = {begin - globals_, end};
      result.tile.ranges = room.first(1);
    } else {
      room[0] = {0, globals_};
      room[1] = {begin, end};
      result.tile.ranges = room.first(2);
    }
    return result;
  }
  std::size_t most_ranges() const override { return 2; }

  std::string_view reason(std::size_t i, std::size_t j) const {
    if (std::max(i, j) >= keys(0)) return "";
    if (std::min(i, j) < globals_) return "global";
    const auto block = [&](std::size_t token) { return (token - globals_ + shift_) / block_; };
    return block(i) == block(j) ? "window" : "";
  }

 private:
  std::size_t globals(std::size_t b) const { return std::min(globals_, keys(b)); }
  std::size_t locals(std::size_t b) const { return keys(b) - globals(b); }
  std::size_t global_tiles(std::size_t b) const { return divide_up(globals(b), kQueryBlock); }
  std::size_t parts() const { return divide_up(block_, kQueryBlock); }  // tiles of a block

  std::size_t block_, shift_, globals_;
};

StaggeredAttention::StaggeredAttention(const StaggeredConfig& config, std::size_t layer)
    : Attention(can(config)),
      config_(config),
      shift_(config.stagger && layer % 2 == 1 ? config.block / 2 : 0) {}

Abilities StaggeredAttention::can(const StaggeredConfig& config) {
  check_numbers(kName, config);
  return {.key_lengths = true, .dropout = true, .grouped_heads = true};
}

AttentionCost StaggeredAttention::cost(const AttentionShape& shape) const {
  return sparse_cost(Pattern(*this, shape));
}

std::string_view StaggeredAttention::reason(const AttentionShape& s, std::size_t /*head*/,
                                            std::size_t i, std::size_t j) const {
  return Pattern(*this, s).reason(i, j);
}

void StaggeredAttention::run_forward(const ForwardCall& call) const {
  sparse_forward(Pattern(*this, shape_of(call.in)), SparseInputs::of(call.in), call.y, call.saved,
                 call.arena);
}

void StaggeredAttention::run_backward(const BackwardCall& call) const {
  sparse_backward(Pattern(*this, shape_of(call.in)), SparseInputs::of(call.in), call.y, call.dy,
                  call.saved, {call.grad.q, call.grad.k, call.grad.v, {}}, call.arena);
}

}  // namespace longspan
