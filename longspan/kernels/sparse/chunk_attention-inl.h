// What forward and backward chunks share: gathering a group of chunks with its neighbours, and the
// masked scores of a block of queries.

#if defined(LONGSPAN_KERNELS_CHUNK_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGSPAN_KERNELS_CHUNK_ATTENTION_INL_H_
#undef LONGSPAN_KERNELS_CHUNK_ATTENTION_INL_H_
#else
#define LONGSPAN_KERNELS_CHUNK_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <limits>

#include "longspan/kernels/rows/gather-inl.h"
#include "longspan/kernels/sparse/chunk_attention.h"
#include "longspan/kernels/sparse/chunk_layout.h"
#include "longspan/kernels/tiled/tiled_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {

using DI = hn::RebindToSigned<DF>;

// The slots [first, last) of the gathered group: keys of a window, or the part that lanes can see.
struct Slots {
  std::size_t first;
  std::size_t last;
  std::size_t count() const { return last - first; }
};

// One block of queries: the slots they lie in and the keys of their window.
struct ChunkBlock {
  std::size_t slot;
  std::size_t lanes;
  Slots window;
};

inline std::span<const std::int32_t> tokens_of(const ChunkBlock& b, const GatheredGroup& g) {
  return {g.token + b.slot, b.lanes};
}

inline void copy_row(const float* from, std::size_t cols, float* to) {
  std::memcpy(to, from, cols * sizeof(float));
  std::fill(to + cols, to + tile_width(cols), 0.0F);
}

// The queries of a block: their own rows among the gathered keys, or rows of q.
inline Right query_rows(const ChunkedHead& head, const ChunkBlock& b, const GatheredGroup& g,
                        float* copy) {
  const std::size_t pitch = tile_pitch(head.q.cols);
  if (head.q.data == head.k.data) return {g.k + b.slot * pitch, pitch};
  for (std::size_t i = 0; i < b.lanes; ++i) {
    copy_row(head.q.row_data(static_cast<std::size_t>(g.token[b.slot + i])), head.q.cols,
             copy + i * pitch);
  }
  return {copy, pitch};
}

// Chunk `at` of the concatenated rounds into the slots from `slot` on; what is missing is a key
// that nobody sees.
inline void gather_chunk(const ChunkedHead& head, std::size_t at, std::size_t slot,
                         const GatheredGroup& g) {
  const ChunkLayout& l = head.layout;
  const std::size_t n = head.q.rows;
  const std::size_t d = head.q.cols;
  const std::size_t e = head.v.cols;
  const std::size_t round = at / l.chunks();
  const std::size_t first = at % l.chunks() * l.chunk;
  const std::size_t count = std::min(l.chunk, l.tokens - first);
  const std::int32_t* order = head.order + round * l.tokens + first;
  const auto buckets = static_cast<std::int32_t>(round) << kRoundShift;
  const std::span<const std::int32_t> rest(order, l.tokens - first);
  for (std::size_t i = 0; i < l.chunk; ++i, ++slot) {
    prefetch_row(head.k, rest, i + kRowsAhead);
    prefetch_row(head.v, rest, i + kRowsAhead);
    const std::size_t token = i < count ? static_cast<std::size_t>(order[i]) : n;
    g.token[slot] = static_cast<std::int32_t>(token);
    const bool hidden = token >= head.real;
    g.bucket[slot] = hidden                   ? kHiddenKey
                     : head.bucket == nullptr ? 0
                                              : head.bucket[round * n + token] + buckets;
    if (token == n) {
      std::fill_n(g.k + slot * tile_pitch(d), tile_width(d), 0.0F);
      std::fill_n(g.v + slot * tile_pitch(e), tile_width(e), 0.0F);
      g.factor[slot] = 0.0F;
      continue;
    }
    copy_row(head.k.row_data(token), d, g.k + slot * tile_pitch(d));
    copy_row(head.v.row_data(token), e, g.v + slot * tile_pitch(e));
    g.factor[slot] = head.factor[token] * kLog2E;
    if (head.code == nullptr) continue;
    for (std::size_t r = 0; r < l.rounds; ++r) {
      g.code[r * g.slots + slot] = head.code[r * n + token];
    }
  }
}

// The query side of the masks, one entry per lane.
inline void prepare_lanes(const ChunkedHead& head, const ChunkBlock& b, std::size_t round,
                          const GatheredGroup& g, const ChunkLanes& to) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int32_t shift = meeting_range(head).shift;
  const std::size_t width = tile_width(b.lanes);
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t slot = b.slot + std::min(i, b.lanes - 1);
    const std::int32_t token = g.token[slot];
    const bool padded = static_cast<std::size_t>(token) >= head.real;
    to.bucket[i] = !padded              ? g.bucket[slot]
                   : head.blind_padding ? kBlindQuery
                   : head.bucket == nullptr
                       ? 0
                       : head.bucket[round * head.q.rows + static_cast<std::size_t>(token)] +
                             (static_cast<std::int32_t>(round) << kRoundShift);
    to.self[i] = head.sees_self ? -1 : token;
    to.limit[i] = !head.causal ? kMost : token;
    to.low[i] =
        head.reach == 0 || slot < head.reach ? 0 : static_cast<std::int32_t>(slot - head.reach);
    for (std::size_t r = 0; head.code != nullptr && r < head.layout.rounds; ++r) {
      to.code[r * kQueryBlock + i] = g.code[r * g.slots + slot] + shift;
    }
  }
}

// The slots of the window that lanes [column, column + width) may see: where buckets divide the
// tokens, those from the first to the last of an equal bucket.
inline Slots visible_slots(const ChunkedHead& head, const ChunkBlock& b, std::size_t column,
                           std::size_t width, const GatheredGroup& g, const ChunkLanes& lanes) {
  Slots s = b.window;
  if (column >= b.lanes) return {s.first, s.first};
  const std::size_t last = std::min(column + width, b.lanes) - 1;
  if (head.bucket != nullptr) {
    const auto [low, high] = std::minmax_element(lanes.bucket + column, lanes.bucket + last + 1);
    auto outside = [low = *low, high = *high, &g](std::size_t slot) {
      return g.bucket[slot] < low || g.bucket[slot] > high;
    };
    if (head.causal && head.layout.wrap == Wrap::kNone)
      s.last = std::min(s.last, b.slot + last + 1);
    while (s.first < s.last && outside(s.first)) ++s.first;
    while (s.first < s.last && outside(s.last - 1)) --s.last;
  }
  s.first = std::clamp(static_cast<std::size_t>(lanes.low[column]), s.first, s.last);
  return s;
}

// c of a vector of queries and key slot j; at least range.least, for pairs that do not meet.
HWY_INLINE VF repetition(const ChunkedHead& head, const GatheredGroup& g, const ChunkLanes& lanes,
                         std::size_t lane, std::size_t j, const MeetingRange& range) {
  const DF d;
  const DI di;
  const DU du;
  const VU width = hn::Set(du, range.width);
  auto count = hn::Zero(di);
  auto add = [&](auto x) HWY_ATTR {
    const VU u = hn::BitCast(du, x);
    count = hn::Sub(count, hn::BitCast(di, hn::VecFromMask(du, hn::Eq(hn::Min(u, width), u))));
  };
  for (std::size_t r = 0; r < head.layout.rounds; ++r) {
    const auto x = hn::Sub(hn::LoadU(di, lanes.code + r * kQueryBlock + lane),
                           hn::Set(di, g.code[r * g.slots + j]));
    add(x);
    if (range.circle == 0) continue;
    const auto circle = hn::Set(di, range.circle);
    add(hn::Add(x, circle));
    add(hn::Sub(x, circle));
  }
  return hn::Max(hn::ConvertTo(d, count), hn::Set(d, range.least));
}

// S[j] = f_j·S[j], −∞ where hidden, for a vector of queries; returns their maximum.
HWY_INLINE VF mask_slots(const GatheredGroup& g, const ChunkLanes& lanes, std::size_t lane,
                         const Slots& s, float* HWY_RESTRICT scores) {
  const DF d;
  const DI di;
  const auto bucket = hn::LoadU(di, lanes.bucket + lane);
  const auto self = hn::LoadU(di, lanes.self + lane);
  const auto limit = hn::LoadU(di, lanes.limit + lane);
  const auto low = hn::LoadU(di, lanes.low + lane);
  const VF hidden = hn::Set(d, kMinusInfinity);
  VF top = hn::Set(d, std::numeric_limits<float>::lowest());
  for (std::size_t j = s.first; j < s.last; ++j, scores += kPitch) {
    const auto token = hn::Set(di, g.token[j]);
    const auto future = hn::Or(hn::Gt(token, limit), hn::Eq(token, self));
    const auto far = hn::Lt(hn::Set(di, static_cast<std::int32_t>(j)), low);
    const auto other = hn::Ne(hn::Set(di, g.bucket[j]), bucket);
    const auto hide = hn::RebindMask(d, hn::Or(hn::Or(future, far), other));
    const VF scaled = hn::Mul(hn::LoadU(d, scores), hn::Set(d, g.factor[j]));
    const VF x = hn::IfThenElse(hide, hidden, scaled);
    hn::StoreU(x, d, scores);
    top = hn::Max(top, x);
  }
  return top;
}

// Slots that hold a token: the last chunk of a round may be short.
inline std::uint64_t taken_slots(const Slots& s, std::size_t n, const GatheredGroup& g) {
  return static_cast<std::uint64_t>(
      std::count_if(g.token + s.first, g.token + s.last,
                    [n](std::int32_t t) { return static_cast<std::size_t>(t) < n; }));
}

// Gathers the group and its neighbours and calls use(block) for each block of at most 64 queries.
template <class Use>
HWY_INLINE void for_each_block(const ChunkedHead& head, std::size_t round, std::size_t group,
                               const GatheredGroup& g, ChunkCounts& counts, Use use) {
  const ChunkLayout& l = head.layout;
  const std::size_t first = group * l.group();
  const std::size_t last = std::min(first + l.group(), l.chunks());
  const std::size_t slots = last - first + l.before + l.after;
  Slots present{slots, 0};  // in chunks
  for (std::size_t i = 0; i < slots; ++i) {
    std::size_t at = 0;
    if (!neighbour(l, round, first + i, at)) continue;
    gather_chunk(head, at, i * l.chunk, g);
    present = {std::min(present.first, i), i + 1};
    counts.gathered += taken_slots({i * l.chunk, (i + 1) * l.chunk}, head.q.rows, g);
  }
  for (std::size_t c = first; c < last; ++c) {
    const std::size_t own = c - first + l.before;
    const Slots window{std::max(own - l.before, present.first) * l.chunk,
                       std::min(own + l.after + 1, present.last) * l.chunk};
    const std::size_t count = std::min(l.chunk, l.tokens - c * l.chunk);
    counts.queries += count;
    counts.pairs += count * taken_slots(window, head.q.rows, g);
    for (std::size_t i = 0; i < count; i += kQueryBlock) {
      use(ChunkBlock{own * l.chunk + i, std::min(kQueryBlock, count - i), window});
    }
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // LONGSPAN_KERNELS_CHUNK_ATTENTION_INL_H_
