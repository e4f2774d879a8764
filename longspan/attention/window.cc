#include "longspan/attention/window.h"

#include <algorithm>

#include "longspan/attention/block_sparse.h"
#include "longspan/base/error.h"

namespace longspan {

namespace {

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

class WindowPattern final : public BlockPattern {
 public:
  WindowPattern(const WindowConfig& config, const AttentionShape& shape)
      : BlockPattern(shape),
        dilation_(config.dilation),
        before_(one_sided(config) ? config.window : config.window / 2),
        after_(one_sided(config) ? 0 : config.window / 2) {}

  std::size_t tiles(std::size_t b, std::size_t /*h*/) const override {
    std::size_t total = 0;
    for (std::size_t phase = 0; phase < dilation_; ++phase) total += tiles_of(b, phase);
    return total;
  }

  PatternTile tile(std::size_t b, std::size_t /*h*/, std::size_t t,
                   std::span<KeyRange> room) const override {
    PatternTile result;
    std::size_t& phase = result.phase;
    for (; t >= tiles_of(b, phase); ++phase) t -= tiles_of(b, phase);
    QueryTile& tile = result.tile;
    tile.first = t * kQueryBlock;
    tile.lanes = std::min(kQueryBlock, rows(offset(), offset() + queries(b), phase) - tile.first);
    const std::size_t position = rows(0, offset(), phase) + tile.first;
    const std::size_t begin = position - std::min(position, before_);
    const std::size_t end = std::min(position + tile.lanes + after_, rows(0, keys(b), phase));
    room[0] = {begin, end, KeyRange::Kind::kBanded};
    tile.ranges = room.first(1);
    return result;
  }

  std::size_t most_ranges() const override { return 1; }
  std::size_t dilation(std::size_t /*h*/) const override { return dilation_; }
  std::size_t before() const override { return before_; }
  std::size_t after() const override { return after_; }

 private:
  bool one_sided(const WindowConfig& config) const { return shape().causal || !config.two_sided; }
  // The tokens of [first, last) that belong to a phase.
  std::size_t rows(std::size_t first, std::size_t last, std::size_t phase) const {
    const auto below = [&](std::size_t end) {
      return end > phase ? divide_up(end - phase, dilation_) : 0;
    };
    return below(last) - below(first);
  }
  std::size_t tiles_of(std::size_t b, std::size_t phase) const {
    return divide_up(rows(offset(), offset() + queries(b), phase), kQueryBlock);
  }

  std::size_t dilation_;
  std::size_t before_;
  std::size_t after_;
};

}  // namespace

WindowAttention::WindowAttention(const WindowConfig& config) : config_(config) {
  require(config.dilation > 0, "[window] dilation is 0; need at least 1");
}

Abilities WindowAttention::abilities() const {
  return {
      .causal = true, .key_lengths = true, .dropout = true, .grouped_heads = true, .decode = true};
}

AttentionCost WindowAttention::cost(const AttentionShape& shape) const {
  return sparse_cost(WindowPattern(config_, shape));
}

void WindowAttention::run_forward(const AttentionInputs& in, Heads y, std::span<float> saved,
                                  Arena& arena) const {
  sparse_forward(WindowPattern(config_, shape_of(in)), SparseInputs::of(in), y, saved, arena);
}

void WindowAttention::run_backward(const AttentionInputs& in, ConstHeads y, ConstHeads dy,
                                   std::span<const float> saved, const AttentionGradients& grad,
                                   std::span<float> /*signals*/, Arena& arena) const {
  sparse_backward(WindowPattern(config_, shape_of(in)), SparseInputs::of(in), y, dy, saved,
                  {grad.q, grad.k, grad.v, {}}, arena);
}

}  // namespace longspan
