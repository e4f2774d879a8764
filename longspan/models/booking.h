// Booking: for which step the memory of a model was last measured.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "longspan/base/batch.h"
#include "longspan/base/parallel.h"

namespace longspan {

// What a step is.
struct StepKind {
  std::string_view name;  // a literal
  bool training = true;
  std::uint64_t rule = 0;  // 0: the model's own steps

  // A rule has a kind of its own: another of the same name may have other options, and with them
  // other memory.
  static StepKind of_rule(std::string_view name) {
    static std::atomic<std::uint64_t> rules = 0;
    return {.name = name, .rule = ++rules};
  }

  bool operator==(const StepKind&) const = default;
};

// Everything on which the memory of a step depends. Remembering allocates only when a list is
// longer than any before it.
class Booking {
 public:
  // Whether this step needs what the remembered one did. `past` is the capacity of the
  // caches it decodes with, or the tokens that its histories hold.
  bool holds(const StepKind& kind, const Batch& batch, std::size_t past) const {
    return numbers_of(kind, batch, past) == numbers_ && equal(lengths_, batch.lengths) &&
           equal(source_lengths_, batch.source_lengths) && equal(globals_, batch.globals);
  }
  void remember(const StepKind& kind, const Batch& batch, std::size_t past) {
    numbers_ = numbers_of(kind, batch, past);
    lengths_.assign(batch.lengths.begin(), batch.lengths.end());
    source_lengths_.assign(batch.source_lengths.begin(), batch.source_lengths.end());
    globals_.assign(batch.globals.begin(), batch.globals.end());
  }
  void forget() { numbers_ = {}; }

 private:
  struct Numbers {
    StepKind kind;
    std::size_t batch = 0;
    std::size_t length = 0;
    std::size_t source_length = 0;
    std::size_t past = 0;
    int threads = 0;
    bool packed = false;
    bool typed = false;
    bool sentences = false;  // or nobody knows yet
    bool operator==(const Numbers&) const = default;
  };
  static Numbers numbers_of(const StepKind& kind, const Batch& batch, std::size_t past) {
    return {kind,
            batch.batch,
            batch.length,
            batch.source_length,
            past,
            thread_count(),
            batch.packed,
            !batch.token_types.empty(),
            !batch.sentence_targets.empty() || batch.targets.empty()};
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
