#include "longspan/attention/pattern/bigbird.h"

#include <algorithm>
#include <array>

#include "longspan/attention/pattern/block_sparse.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/base/number.h"

namespace longspan {

namespace {

// Blocks [begin, end) from which block t may draw, without the window.
struct Candidates {
  std::size_t begin, end;
  std::size_t window_begin, window_end;

  std::size_t count() const { return end - begin - (window_end - window_begin); }
  // The i-th of them.
  std::size_t operator[](std::size_t i) const {
    const std::size_t block = begin + i;
    return block < window_begin ? block : block + window_end - window_begin;
  }
};

Candidates candidates(std::size_t t, std::size_t half, std::size_t blocks, bool causal) {
  const std::size_t end =
      causal ? t - std::min(t, half) : blocks - std::min<std::size_t>(1, blocks);
  Candidates c{std::min<std::size_t>(1, end), end, 0, 0};
  c.window_begin = std::clamp(t - std::min(t, half), c.begin, c.end);
  c.window_end = std::clamp(t + half + 1, c.window_begin, c.end);
  return c;
}

}  // namespace

class BigBirdPattern final : public BlockPattern {
 public:
  BigBirdPattern(const BigBirdAttention& attention, const AttentionShape& shape)
      : BlockPattern(shape),
        attention_(attention),
        config_(attention.config_),
        pieces_(divide_up(config_.block, kQueryBlock)) {}

  // Tiles of the global tokens, then those of the blocks; a tile may be empty where the first
  // query is not the first of its block.
  std::size_t tiles(std::size_t b, std::size_t /*h*/) const override {
    const std::size_t end = offset() + queries(b);
    if (end <= config_.etc) return divide_up(end - std::min(end, offset()), kQueryBlock);
    const std::size_t first = first_block();
    return front_tiles() + (divide_up(end - config_.etc, config_.block) - first) * pieces_;
  }

  PatternTile tile(std::size_t b, std::size_t h, std::size_t t,
                   std::span<KeyRange> room) const override {
    PatternTile result;
    const std::size_t end = offset() + queries(b);
    if (t < front_tiles()) {
      const std::size_t begin = offset() + t * kQueryBlock;
      set_queries(begin, std::min({begin + kQueryBlock, config_.etc, end}), result.tile);
      room[0] = everything(b, result.tile);
      result.tile.ranges = room.first(1);
      return result;
    }
    const std::size_t block = first_block() + (t - front_tiles()) / pieces_;
    const std::size_t begin =
        config_.etc + block * config_.block + (t - front_tiles()) % pieces_ * kQueryBlock;
    const std::size_t last = config_.etc + (block + 1) * config_.block;
    set_queries(std::max(begin, offset()), std::min({begin + kQueryBlock, last, end}), result.tile);
    if (sees_everything(block, blocks(b))) {
      room[0] = everything(b, result.tile);
      result.tile.ranges = room.first(1);
    } else {
      result.tile.ranges = list(b, h, block, room);
    }
    return result;
  }

  std::size_t most_ranges() const override { return 3 + config_.window + config_.random; }
  // Drawn blocks are all of one size, except where padding cuts them or neighbours share a tile.
  bool equal_heads() const override {
    return attention_.given_.blocks.empty() && !(config_.padded && !shape().key_lengths.empty()) &&
           config_.block % kKeyBlock == 0 && config_.etc % kKeyBlock == 0;
  }

 private:
  std::size_t blocks(std::size_t b) const {
    const std::size_t tokens = config_.padded ? shape().n : keys(b);
    return tokens > config_.etc ? divide_up(tokens - config_.etc, config_.block) : 0;
  }
  std::size_t first_block() const {
    return offset() > config_.etc ? (offset() - config_.etc) / config_.block : 0;
  }
  std::size_t front_tiles() const {
    return offset() < config_.etc ? divide_up(config_.etc - offset(), kQueryBlock) : 0;
  }
  void set_queries(std::size_t begin, std::size_t end, QueryTile& tile) const {
    tile.first = std::min(begin, offset() + shape().m) - offset();
    tile.lanes = end > begin ? end - begin : 0;
  }
  bool sees_everything(std::size_t block, std::size_t count) const {
    if (config_.etc > 0) return false;
    return block == 0 || (!shape().causal && block + 1 == count);
  }
  KeyRange everything(std::size_t b, const QueryTile& tile) const {
    if (!shape().causal) return {0, keys(b), KeyRange::Kind::kWhole};
    const std::size_t end = tile.first + offset() + tile.lanes;
    return {0, std::min(end, keys(b)), KeyRange::Kind::kBanded};
  }

  // The blocks that `block` sees, as sorted ranges; neighbours become one.
  std::span<const KeyRange> list(std::size_t b, std::size_t h, std::size_t block,
                                 std::span<KeyRange> room) const {
    const std::size_t count = blocks(b);
    const std::size_t half = config_.window / 2;
    std::size_t used = 0;
    auto add = [&](std::size_t t) { room[used++].begin = t; };
    if (config_.etc == 0) add(0);
    if (config_.etc == 0 && !shape().causal) add(count - 1);
    const std::size_t last = std::min(block + (shape().causal ? 0 : half), count - 1);
    for (std::size_t t = block - std::min(block, half); t <= last; ++t) add(t);
    std::array<std::size_t, BigBirdConfig::kMostRandom> drawn;
    const std::size_t random = attention_.draw(h, block, count, shape().causal, drawn);
    for (std::size_t i = 0; i < random; ++i) add(drawn[i]);
    std::ranges::sort(room.first(used), {}, &KeyRange::begin);
    return merge(b, block, room, used);
  }

  // Blocks, sorted, in room[…].begin become ranges of keys in place. The diagonal of a causal list
  // is its last range, and the only one with a band.
  std::span<const KeyRange> merge(std::size_t b, std::size_t block, std::span<KeyRange> room,
                                  std::size_t used) const {
    std::size_t out = 0;
    KeyRange current;
    if (config_.etc > 0) current = {0, std::min(config_.etc, keys(b)), KeyRange::Kind::kWhole};
    // The front tokens take a place of their own: read before it is written.
    KeyRange next = room[0];
    for (std::size_t i = 0; i < used; ++i) {
      const std::size_t t = next.begin;
      if (i + 1 < used) next = room[i + 1];
      const KeyRange keys_of_block{
          std::min(config_.etc + t * config_.block, keys(b)),
          std::min(config_.etc + (t + 1) * config_.block, keys(b)),
          shape().causal && t == block ? KeyRange::Kind::kBanded : KeyRange::Kind::kWhole};
      if (keys_of_block.begin < current.end || keys_of_block.size() == 0) continue;
      if (keys_of_block.begin == current.end && keys_of_block.kind == current.kind) {
        current.end = keys_of_block.end;
        continue;
      }
      if (current.size() > 0) room[out++] = current;
      current = keys_of_block;
    }
    if (current.size() > 0) room[out++] = current;
    return room.first(out);
  }

  const BigBirdAttention& attention_;
  const BigBirdConfig& config_;
  std::size_t pieces_;  // tiles of a block
};

Abilities BigBirdAttention::can(const BigBirdConfig& config) {
  check_numbers(kName, config);
  require(config.window % 2 == 1, "[bigbird] a window of {} blocks; need an odd number",
          config.window);
  return {.causal = true,
          .key_lengths = true,
          .dropout = true,
          .grouped_heads = true,
          .decode = true,
          .reads_padding = config.padded};
}

void BigBirdAttention::check_more(const AttentionShape& s) const {
  if (given_.blocks.empty()) return;
  require(given_.blocks.size() == s.heads * given_.rows * config_.random,
          "[bigbird] {} random blocks are given; need {} heads × {} blocks × {}",
          given_.blocks.size(), s.heads, given_.rows, config_.random);
  const std::size_t blocks = divide_up(s.n, config_.block);
  require(given_.rows + 2 == blocks, "[bigbird] random blocks for {} blocks; {} tokens have {}",
          given_.rows + 2, s.n, blocks);
}

// Floyd's sampling without replacement: each step draws from one more, and takes the new one when
// the draw repeats.
std::size_t BigBirdAttention::draw(std::size_t head, std::size_t t, std::size_t blocks, bool causal,
                                   std::span<std::size_t> out) const {
  if (config_.etc > 0 || config_.random == 0 || t == 0) return 0;
  if (!given_.blocks.empty()) {
    const std::int32_t* row = given_.blocks.data() + (head * given_.rows + t - 1) * config_.random;
    std::copy_n(row, config_.random, out.begin());
    return config_.random;
  }
  const Candidates c = candidates(t, config_.window / 2, blocks, causal);
  const std::size_t wanted = std::min(config_.random, c.count());
  const RandomKey key = derive(derive(derive(config_.seed, layer_), head), t);
  for (std::size_t i = 0; i < wanted; ++i) {
    const std::size_t newest = c.count() - wanted + i;
    const std::size_t drawn = c[random_below(key, i, newest + 1)];
    const auto taken = out.first(i);
    out[i] = std::ranges::find(taken, drawn) == taken.end() ? drawn : c[newest];
  }
  return wanted;
}

std::string_view BigBirdAttention::reason(const AttentionShape& s, std::size_t head, std::size_t i,
                                          std::size_t j) const {
  const std::size_t length =
      s.key_lengths.empty() ? s.n : static_cast<std::size_t>(s.key_lengths[0]);
  const std::size_t position = i + s.n - s.m;
  if (std::max(position, j) >= length || (s.causal && j > position)) return "";
  if (std::min(position, j) < config_.etc) return "global";
  const std::size_t query = (position - config_.etc) / config_.block;
  const std::size_t key = (j - config_.etc) / config_.block;
  const std::size_t blocks =
      divide_up((config_.padded ? s.n : length) - config_.etc, config_.block);
  const auto is_global = [&](std::size_t t) {
    return config_.etc == 0 && (t == 0 || (!s.causal && t + 1 == blocks));
  };
  if (is_global(query) || is_global(key)) return "global";
  if ((query > key ? query - key : key - query) <= config_.window / 2) return "window";
  std::array<std::size_t, BigBirdConfig::kMostRandom> drawn{};
  const auto others = std::span(drawn).first(draw(head, query, blocks, s.causal, drawn));
  return std::ranges::find(others, key) != others.end() ? "random" : "";
}

AttentionCost BigBirdAttention::cost(const AttentionShape& shape) const {
  return sparse_cost(BigBirdPattern(*this, shape));
}

void BigBirdAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  sparse_forward(BigBirdPattern(*this, shape_of(in)), SparseInputs::of(in), y, saved, arena);
}

void BigBirdAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  Arena& arena = call.arena;
  sparse_backward(BigBirdPattern(*this, shape_of(in)), SparseInputs::of(in), y, dy, saved,
                  {grad.q, grad.k, grad.v, {}}, arena);
}

}  // namespace longspan
