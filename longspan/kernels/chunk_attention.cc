#include "longspan/kernels/chunk_attention.h"

#include "longspan/kernels/chunk_layout.h"

namespace longspan {

namespace {

// The tokens of chunk number `index` − before of a round.
std::uint64_t size_at(const ChunkLayout& l, std::size_t index) {
  std::size_t at = 0;
  if (!neighbour(l, 0, index, at)) return 0;
  return std::min(l.chunk, l.tokens - at % l.chunks() * l.chunk);
}

}  // namespace

std::uint64_t ChunkLayout::pairs() const {
  std::uint64_t total = 0;
  for (std::size_t c = 0; c < chunks(); ++c) {
    for (std::size_t i = c; i < c + seen(); ++i) {
      total += size_at(*this, c + before) * size_at(*this, i);
    }
  }
  return total;
}

std::uint64_t ChunkLayout::gathered() const {
  std::uint64_t total = 0;
  for (std::size_t c = 0; c < chunks(); c += group()) {
    const std::size_t last = std::min(c + group(), chunks()) + before + after;
    for (std::size_t i = c; i < last; ++i) total += size_at(*this, i);
  }
  return total;
}

namespace {

std::size_t colours(const ChunkLayout& l) {
  return 1 + (l.before + l.after + l.group() - 1) / l.group();
}

}  // namespace

std::size_t ChunkLayout::phases() const {
  return colours(*this) + (wrap == Wrap::kNone ? 0 : groups());
}

std::size_t ChunkLayout::phase(std::size_t group_index) const {
  const std::size_t first = group_index * group();
  const bool inside = first >= before && first + group() + after <= chunks();
  return wrap == Wrap::kNone || inside ? group_index % colours(*this)
                                       : colours(*this) + group_index;
}

bool neighbour(const ChunkLayout& l, std::size_t round, std::size_t index, std::size_t& at) {
  const std::size_t chunks = l.chunks();
  const std::size_t first = round * chunks;
  switch (l.wrap) {
    case Wrap::kNone:
      if (index < l.before || index >= l.before + chunks) return false;
      at = first + index - l.before;
      return true;
    case Wrap::kRound:
      at = first + (index + (l.before / chunks + 1) * chunks - l.before) % chunks;
      return true;
    case Wrap::kAll: {
      const std::size_t all = l.rounds * chunks;
      at = (first + index + (l.before / all + 1) * all - l.before) % all;
      return true;
    }
  }
  return false;
}

MeetingRange meeting_range(const ChunkedHead& head) {
  const ChunkLayout& l = head.layout;
  MeetingRange range;
  range.width = static_cast<std::uint32_t>(head.reach > 0 ? head.reach : l.before + l.after);
  range.shift = head.reach > 0 ? 0 : static_cast<std::int32_t>(l.after);
  if (l.wrap == Wrap::kRound) range.circle = static_cast<std::int32_t>(l.chunks());
  if (l.wrap == Wrap::kAll) {
    range.circle = static_cast<std::int32_t>(l.chunks() * l.rounds);
    // A key that is seen across rounds only counts 0, and public code then divides by this.
    range.least = 1e-9F;
  }
  return range;
}

void meeting_codes(const ChunkedHead& head, std::size_t round, std::int32_t* code) {
  const ChunkLayout& l = head.layout;
  const MeetingRange range = meeting_range(head);
  const auto spread = static_cast<std::int32_t>(range.width) + 1 + 2 * range.circle;
  for (std::size_t place = 0; place < l.tokens; ++place) {
    const auto token = static_cast<std::size_t>(head.order[round * l.tokens + place]);
    const auto rank = static_cast<std::int32_t>(head.reach > 0 ? place : place / l.chunk);
    const std::size_t at = round * head.q.rows + token;
    code[at] = rank + (head.bucket == nullptr ? 0 : head.bucket[at] * spread);
  }
}

}  // namespace longspan
