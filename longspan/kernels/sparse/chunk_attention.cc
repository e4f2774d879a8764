#include "longspan/kernels/sparse/chunk_attention.h"

#include <cmath>

#include "longspan/kernels/sparse/chunk_layout.h"

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
    const std::size_t at = round * head.k.rows + token;
    code[at] = rank + (head.bucket == nullptr ? 0 : head.bucket[at] * spread);
  }
}

namespace {

// c of two tokens, as the lanes of a tile find it.
float repetition_of(const ChunkedHead& head, std::size_t query, std::size_t key) {
  const MeetingRange range = meeting_range(head);
  std::uint32_t count = 0;
  for (std::size_t r = 0; r < head.layout.rounds; ++r) {
    const std::int32_t* code = head.code + r * head.k.rows;
    const std::int32_t x = code[query] + range.shift - code[key];
    count += static_cast<std::uint32_t>(x) <= range.width ? 1 : 0;
    if (range.circle == 0) continue;
    count += static_cast<std::uint32_t>(x + range.circle) <= range.width ? 1 : 0;
    count += static_cast<std::uint32_t>(x - range.circle) <= range.width ? 1 : 0;
  }
  return std::max(static_cast<float>(count), range.least);
}

void add_key(const ChunkedHead& head, std::size_t query, std::size_t key, ChunkRow& row) {
  row.tokens[row.count] = static_cast<std::int32_t>(key);
  row.bias[row.count] = head.code == nullptr ? 0.0F : -std::log(repetition_of(head, query, key));
  ++row.count;
}

}  // namespace

std::size_t row_keys(const ChunkLayout& layout) {
  return layout.rounds * layout.seen() * std::min(layout.chunk, layout.tokens);
}

void find_row(const ChunkedHead& head, std::size_t token, const std::int32_t* places,
              ChunkRow& row) {
  const ChunkLayout& l = head.layout;
  row.count = 0;
  for (std::size_t r = 0; r < l.rounds; ++r) {
    const std::int32_t* bucket = head.bucket == nullptr ? nullptr : head.bucket + r * head.k.rows;
    const auto place = static_cast<std::size_t>(places[r]);
    const auto seen = [&](std::size_t key) {
      return key < head.real && (head.sees_self || key != token) &&
             (!head.causal || key <= token) && (bucket == nullptr || bucket[key] == bucket[token]);
    };
    for (std::size_t index = place / l.chunk; index < place / l.chunk + l.seen(); ++index) {
      std::size_t at = 0;
      if (!neighbour(l, r, index, at)) continue;
      const std::size_t round = at / l.chunks();
      if (bucket != nullptr && round != r) continue;  // buckets of different rounds are different
      const std::size_t first = at % l.chunks() * l.chunk;
      for (std::size_t p = first; p < std::min(first + l.chunk, l.tokens); ++p) {
        const auto key = static_cast<std::size_t>(head.order[round * l.tokens + p]);
        if (seen(key) && (head.reach == 0 || p + head.reach >= place)) {
          add_key(head, token, key, row);
        }
      }
    }
  }
}

}  // namespace longspan
