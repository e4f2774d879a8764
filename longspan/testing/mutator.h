// Damaged copies of a sound file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "longspan/base/random.h"

namespace longspan::testing {

// Draws from one stream, so that every run sees the same mutants.
class Mutator {
 public:
  explicit Mutator(RandomKey key) : key_(key) {}

  // With one to four bytes, words or digits changed, added or removed.
  std::string mutate(std::string bytes);
  // The next number of the stream.
  std::size_t below(std::size_t bound) { return random_below(key_, next_++, bound); }

 private:
  void edit(std::string& bytes);

  RandomKey key_;
  std::uint64_t next_ = 0;
};

}  // namespace longspan::testing
