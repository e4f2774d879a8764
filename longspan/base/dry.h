// Dry: the same code without memory or arithmetic.
//
// While one lives, kernels called from this thread hand their call to the listener and return, so
// that a step can be asked what it would do and take. Memory has addresses nevertheless, at real
// distances from each other, which no machine can read or write: whoever touches one is stopped at
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace longspan {

class Dry {
 public:
  Dry() { ++depth_; }
  ~Dry() { --depth_; }
  Dry(const Dry&) = delete;
  Dry& operator=(const Dry&) = delete;

  static bool on() { return depth_ > 0; }

  // `count` elements, `offset` bytes into memory that is not there.
  template <class T>
  static std::span<T> memory(std::size_t count, std::size_t offset = 0) {
    // Not a canonical address: 48 or 57 bits are used, and the rest repeat the highest of them.
    constexpr std::uintptr_t kNowhere = std::uintptr_t{1} << 62U;
    return {reinterpret_cast<T*>(kNowhere + offset),  // NOLINT(performance-no-int-to-ptr)
            count};
  }

 private:
  static thread_local int depth_;
};

}  // namespace longspan
