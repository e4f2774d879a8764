#include "longspan/base/packed_batch.h"

#include <algorithm>

#include "longspan/base/error.h"

namespace longspan {

namespace {

using Lengths = std::span<const std::int32_t>;

std::size_t at(Lengths lengths, std::size_t b) { return static_cast<std::size_t>(lengths[b]); }

// Every row of [batch·length, width], whatever the width, but those of padding.
template <class T>
std::span<const T> pack_rows(std::span<const T> padded, std::size_t length, Lengths lengths,
                             std::vector<T>& to) {
  if (padded.empty()) return {};
  const std::size_t width = padded.size() / (lengths.size() * length);
  to.clear();
  to.reserve(padded.size());
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const auto own = padded.subspan(b * length * width, at(lengths, b) * width);
    to.insert(to.end(), own.begin(), own.end());
  }
  return to;
}

void require_lengths(Lengths lengths, std::size_t batch, std::size_t length) {
  require(lengths.empty() || lengths.size() == batch,
          "[pack] {} lengths for {} sequences; need one each", lengths.size(), batch);
  for (const std::int32_t n : lengths) {
    require(n > 0 && static_cast<std::size_t>(n) <= length,
            "[pack] a sequence of {} real tokens; need 1 to {}", n, length);
  }
}

Lengths all_lengths(Lengths given, std::size_t batch, std::size_t length,
                    std::vector<std::int32_t>& memory) {
  if (!given.empty()) return given;
  memory.assign(batch, static_cast<std::int32_t>(length));
  return memory;
}

}  // namespace

bool has_padding(const Batch& batch) {
  const auto shorter = [](Lengths lengths, std::size_t length) {
    return std::ranges::any_of(
        lengths, [&](std::int32_t n) { return static_cast<std::size_t>(n) < length; });
  };
  const auto whole = [](Lengths lengths) {
    return std::ranges::all_of(lengths, [](std::int32_t n) { return n > 0; });
  };
  return !batch.packed && whole(batch.lengths) && whole(batch.source_lengths) &&
         (shorter(batch.lengths, batch.length) ||
          shorter(batch.source_lengths, batch.source_length));
}

Batch pack(const Batch& padded, Answers answers, PackedMemory& memory) {
  require(!padded.packed, "[pack] a batch that is packed; need a padded one");
  require(padded.batch > 0 && padded.features.empty(),
          "[pack] {} sequences, {} features; need sequences of tokens", padded.batch,
          padded.features.size());
  require_lengths(padded.lengths, padded.batch, padded.length);
  require_lengths(padded.source_lengths, padded.batch, padded.source_length);
  Batch packed = padded;
  packed.packed = true;
  packed.lengths = all_lengths(padded.lengths, padded.batch, padded.length, memory.lengths);
  packed.length = static_cast<std::size_t>(std::ranges::max(packed.lengths));
  const auto rows = [&](auto all, auto& to) {
    return pack_rows(all, padded.length, packed.lengths, to);
  };
  packed.tokens = rows(padded.tokens, memory.tokens);
  packed.times = rows(padded.times, memory.times);
  packed.token_types = rows(padded.token_types, memory.token_types);
  if (answers == Answers::kOfRows) {
    packed.targets = rows(padded.targets, memory.targets);
    packed.values = rows(padded.values, memory.values);
    packed.teacher_scores = rows(padded.teacher_scores, memory.teacher_scores);
    packed.teacher_states = rows(padded.teacher_states, memory.teacher_states);
  }
  if (padded.source_length == 0) {
    packed.globals = rows(padded.globals, memory.globals);
    return packed;
  }
  packed.source_lengths =
      all_lengths(padded.source_lengths, padded.batch, padded.source_length, memory.source_lengths);
  packed.source_length = static_cast<std::size_t>(std::ranges::max(packed.source_lengths));
  packed.source =
      pack_rows(padded.source, padded.source_length, packed.source_lengths, memory.source);
  packed.globals =
      pack_rows(padded.globals, padded.source_length, packed.source_lengths, memory.globals);
  return packed;
}

ConstMatrix unpack(ConstMatrix rows, const Batch& padded, std::vector<float>& memory) {
  memory.assign(padded.rows() * rows.cols, 0.0F);
  const Matrix all(memory.data(), padded.rows(), rows.cols);
  std::size_t row = 0;
  for (std::size_t b = 0; b < padded.batch; ++b) {
    const std::size_t length = padded.lengths.empty() ? padded.length : at(padded.lengths, b);
    for (std::size_t i = 0; i < length; ++i) {
      std::ranges::copy(rows.row(row++), all.row(b * padded.length + i).begin());
    }
  }
  return all;
}

}  // namespace longspan
