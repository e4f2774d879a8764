#include "longspan/attention/local.h"

#include <algorithm>

#include "longspan/attention/block_sparse.h"
#include "longspan/base/error.h"

namespace longspan {

namespace {

// A tile of queries lies within one block, so that all of it sees the same blocks.
class LocalPattern final : public BlockPattern {
 public:
  LocalPattern(const LocalConfig& config, const AttentionShape& shape)
      : BlockPattern(shape), config_(config) {}

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
    const std::size_t back = std::min(block, config_.before);
    PatternTile result;
    result.tile.first = first - offset();
    result.tile.lanes = end - first;
    room[0] = {(block - back) * config_.block,
               std::min((block + 1 + config_.after) * config_.block, keys(b)),
               shape().causal ? KeyRange::Kind::kBanded : KeyRange::Kind::kWhole};
    // Causal queries of a tile see nothing behind its last one.
    if (shape().causal) room[0].end = std::min(room[0].end, end);
    result.tile.ranges = room.first(1);
    return result;
  }

  std::size_t most_ranges() const override { return 1; }

 private:
  std::size_t tiles_per_block() const { return (config_.block + kQueryBlock - 1) / kQueryBlock; }
  // The number of the tile that a token belongs to.
  std::size_t tiles_before(std::size_t token) const {
    return token / config_.block * tiles_per_block() + token % config_.block / kQueryBlock;
  }

  LocalConfig config_;
};

}  // namespace

LocalAttention::LocalAttention(const LocalConfig& config) : config_(config) {
  constexpr std::size_t kMost = std::size_t{1} << 31U;
  require(config.block > 0 && config.block < kMost && config.before < kMost && config.after < kMost,
          "[local] blocks of {} tokens, {} before and {} after; need at least one token and less "
          "than 2^31 of each",
          config.block, config.before, config.after);
}

AttentionCost LocalAttention::cost(const AttentionShape& shape) const {
  return sparse_cost(LocalPattern(config_, shape));
}

void LocalAttention::run_forward(const AttentionInputs& in, Heads y, std::span<float> saved,
                                 Arena& arena) const {
  sparse_forward(LocalPattern(config_, shape_of(in)), SparseInputs::of(in), y, saved, arena);
}

void LocalAttention::run_backward(const AttentionInputs& in, ConstHeads y, ConstHeads dy,
                                  std::span<const float> saved, const AttentionGradients& grad,
                                  std::span<float> /*signals*/, Arena& arena) const {
  sparse_backward(LocalPattern(config_, shape_of(in)), SparseInputs::of(in), y, dy, saved,
                  {grad.q, grad.k, grad.v, {}}, arena);
}

}  // namespace longspan
