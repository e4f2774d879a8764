#include "longspan/attention/pattern/local.h"

#include <algorithm>

#include "longspan/attention/pattern/block_sparse.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/base/number.h"

namespace longspan {

namespace {

// A tile of queries lies within one block, so that all of it sees the same blocks.
class LocalPattern final : public BlockPattern {
 public:
  LocalPattern(const LocalConfig& config, const AttentionShape& shape)
      : BlockPattern(shape), config_(config) {}

  bool rereads() const override {
    return (config_.before + 1 + config_.after) * config_.block > 2 * kQueryBlock;
  }
  std::size_t tiles(std::size_t b, std::size_t /*h*/) const override {
    const std::size_t last = offset() + queries(b);
    return queries(b) == 0 ? 0 : tiles_before(last - 1) - tiles_before(offset()) + 1;
  }

  PatternTile tile(std::size_t b, std::size_t /*h*/, std::size_t t,
                   std::span<KeyRange> room) const override {
    const std::size_t index = tiles_before(offset()) + t;
    const std::size_t block = index / tiles_per_block();
    const std::size_t begin = block * config_.block + index % tiles_per_block() * kQueryBlock;
    const std::size_t end =
        std::min({begin + kQueryBlock, (block + 1) * config_.block, offset() + queries(b)});
    const std::size_t first = std::max(begin, offset());
    PatternTile result;
    result.tile.first = first - offset();
    result.tile.lanes = end - first;
    if (!shape().causal) {
      result.tile.ranges = room.first(seen_blocks(block, keys(b), room));
      return result;
    }
    // The queries of a tile see nothing behind its last one.
    const std::size_t back = std::min(block, config_.before);
    room[0] = {(block - back) * config_.block, std::min(end, keys(b)), KeyRange::Kind::kBanded};
    result.tile.ranges = room.first(1);
    return result;
  }

  std::size_t most_ranges() const override { return 2; }

 private:
  // The keys of the blocks that `block` sees, of `keys` in all; how many ranges they are.
  std::size_t seen_blocks(std::size_t block, std::size_t keys, std::span<KeyRange> room) const {
    const std::size_t blocks = divide_up(keys, config_.block);
    const auto range = [&](std::size_t first, std::size_t last) {
      return KeyRange{first * config_.block, std::min(last * config_.block, keys)};
    };
    const std::size_t first = block - std::min(block, config_.before);
    const std::size_t last = std::min(block + 1 + config_.after, blocks);
    // What is missing at one end is taken from the other.
    const std::size_t tail = config_.wrap ? config_.before - (block - first) : 0;
    const std::size_t head = config_.wrap ? block + 1 + config_.after - last : 0;
    if (head + tail + (last - first) >= blocks) {
      room[0] = range(0, blocks);
      return 1;
    }
    if (head + tail == 0) {
      room[0] = range(first, last);
      return 1;
    }
    // Only one end can be missing something, as not all blocks are seen.
    room[0] = range(0, head > 0 ? head : last);
    room[1] = range(head > 0 ? first : blocks - tail, blocks);
    return 2;
  }
  std::size_t tiles_per_block() const { return divide_up(config_.block, kQueryBlock); }
  // The number of the tile that a token belongs to.
  std::size_t tiles_before(std::size_t token) const {
    return token / config_.block * tiles_per_block() + token % config_.block / kQueryBlock;
  }

  LocalConfig config_;
};

}  // namespace

Abilities LocalAttention::can(const LocalConfig& config) {
  check_numbers(kName, config);
  return {
      .causal = true, .key_lengths = true, .dropout = true, .grouped_heads = true, .decode = true};
}

AttentionCost LocalAttention::cost(const AttentionShape& shape) const {
  return sparse_cost(LocalPattern(config_, shape));
}

std::string_view LocalAttention::reason(const AttentionShape& s, std::size_t /*head*/,
                                        std::size_t i, std::size_t j) const {
  const LocalPattern pattern(config_, s);
  const std::size_t keys = pattern.keys(0);
  const std::size_t position = i + pattern.offset();
  if (std::max(position, j) >= keys || (s.causal && j > position)) return "";
  const std::size_t own = position / config_.block;
  const std::size_t other = j / config_.block;
  // Around the end, which is as far as nothing reaches without `wrap`.
  const std::size_t around =
      config_.wrap && !s.causal ? divide_up(keys, config_.block) : std::size_t{1} << 63U;
  const bool back = (own >= other ? own - other : own + around - other) <= config_.before;
  const bool ahead = (other >= own ? other - own : other + around - own) <= config_.after;
  return back || ahead ? "window" : "";
}

void LocalAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  sparse_forward(LocalPattern(config_, shape_of(in)), SparseInputs::of(in), y, saved, arena);
}

void LocalAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  Arena& arena = call.arena;
  sparse_backward(LocalPattern(config_, shape_of(in)), SparseInputs::of(in), y, dy, saved,
                  {grad.q, grad.k, grad.v, {}}, arena);
}

}  // namespace longspan
