#include "longspan/tasks/classes/bucketed.h"

#include <algorithm>
#include <utility>

namespace longspan {

namespace {

constexpr std::size_t kGroup = 64;  // batches

// Fisher and Yates.
template <class Swap>
void shuffle(RandomKey key, std::size_t count, const Swap& swap) {
  for (std::uint64_t j = count; j-- > 1;) swap(j, random_below(key, j, j + 1));
}

}  // namespace

void Bucketed::order_pass(RandomKey key, std::size_t rows, std::size_t count,
                          const Length& length) {
  const std::size_t wanted = std::max(count, rows);
  order_.resize(wanted);
  for (std::size_t i = 0; i < wanted; ++i) order_[i] = static_cast<std::uint32_t>(i % count);
  shuffle(derive(key, "examples"), wanted,
          [&](std::size_t a, std::size_t b) { std::swap(order_[a], order_[b]); });
  const std::size_t batches = wanted / rows;
  for (std::size_t first = 0; first < batches; first += kGroup) {
    const std::size_t here = std::min(kGroup, batches - first);
    const std::span<std::uint32_t> group = std::span(order_).subspan(first * rows, here * rows);
    std::ranges::stable_sort(group, {}, length);
    shuffle(derive(derive(key, "batches"), first), here, [&](std::size_t a, std::size_t b) {
      if (a != b)
        std::ranges::swap_ranges(group.subspan(a * rows, rows), group.subspan(b * rows, rows));
    });
  }
  order_key_ = key;
  rows_ = rows;
}

std::span<const std::uint32_t> Bucketed::batch(RandomKey key, std::uint64_t step, std::size_t rows,
                                               std::size_t count, const Length& length) {
  const std::uint64_t batches = std::max(count, rows) / rows;
  const RandomKey pass = derive(key, step / batches);
  if (order_.empty() || pass != order_key_ || rows != rows_) order_pass(pass, rows, count, length);
  return std::span(order_).subspan(step % batches * rows, rows);
}

}  // namespace longspan
