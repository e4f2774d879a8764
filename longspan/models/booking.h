// Booking: for which step the memory of a model was last measured.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "longspan/base/parallel.h"
#include "longspan/models/batch.h"

namespace longspan {

// Everything on which the memory of a step depends. Remembering allocates only when a list is
// longer than any before it.
class Booking {
 public:
  // Whether this step needs what the remembered one did. `kind` is a literal; `capacity` that of
  // the caches it decodes with.
  bool holds(std::string_view kind, const Batch& batch, std::size_t capacity) const {
    return numbers_of(kind, batch, capacity) == numbers_ && equal(lengths_, batch.lengths) &&
           equal(source_lengths_, batch.source_lengths) && equal(globals_, batch.globals);
  }
  void remember(std::string_view kind, const Batch& batch, std::size_t capacity) {
    numbers_ = numbers_of(kind, batch, capacity);
    lengths_.assign(batch.lengths.begin(), batch.lengths.end());
    source_lengths_.assign(batch.source_lengths.begin(), batch.source_lengths.end());
    globals_.assign(batch.globals.begin(), batch.globals.end());
  }
  void forget() { numbers_ = {}; }

 private:
  struct Numbers {
    std::string_view kind;
    std::size_t batch = 0;
    std::size_t length = 0;
    std::size_t source_length = 0;
    std::size_t history_length = 0;
    std::size_t capacity = 0;
    int threads = 0;
    bool typed = false;
    bool operator==(const Numbers&) const = default;
  };
  static Numbers numbers_of(std::string_view kind, const Batch& batch, std::size_t capacity) {
    return {kind,
            batch.batch,
            batch.length,
            batch.source_length,
            batch.histories.empty() ? 0 : batch.histories.front().length(),
            capacity,
            thread_count(),
            !batch.token_types.empty()};
  }
  template <class T>
  static bool equal(const std::vector<T>& a, std::span<const T> b) {
    return std::ranges::equal(a, b);
  }

  Numbers numbers_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int32_t> source_lengths_;
  std::vector<std::uint8_t> globals_;
};

}  // namespace longspan
