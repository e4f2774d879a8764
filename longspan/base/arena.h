// Arena: the memory of a step, booked once before it runs.
//
// A stack: `take` pushes, a Frame pops everything pushed since it was opened. A dry arena has no
// memory: its high-water mark after a dry step is how much to book for a real one.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include "longspan/base/integers.h"
#include "longspan/base/place.h"
#include "longspan/base/sizes.h"
#include "longspan/base/view.h"

namespace longspan {

class Arena {
 public:
  // Every block starts at a multiple of this, so that vectors and cache lines are never split.
  static constexpr std::size_t kAlignment = 64;

  Arena() = default;
  explicit Arena(std::size_t bytes);
  // Addresses without memory, of any number of bytes.
  static Arena dry();

  // What `take<T>(count)` consumes: the sizes in footprints are sums of this.
  template <class T = float>
  static constexpr std::size_t bytes_for(std::size_t count) {
    return round_up(size_product(count, sizeof(T)), kAlignment);
  }

  // Uninitialised memory; throws Error when the booking was too small.
  template <class T = float>
  std::span<T> take(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    return {static_cast<T*>(take_bytes(bytes_for<T>(count))), count};
  }
  Matrix matrix(std::size_t rows, std::size_t cols) {
    return {take(size_product(rows, cols)).data(), rows, cols};
  }

  std::size_t capacity() const { return capacity_; }
  std::size_t used() const { return used_; }
  std::size_t peak() const { return peak_; }
  void reset_peak() {
    peak_ = used_;
    largest_ = 0;
  }
  // Where in the step the peak was first reached.
  const Place& peak_at() const { return peak_at_; }
  // The most that was taken at once, and where it first was.
  std::size_t largest() const { return largest_; }
  const Place& largest_at() const { return largest_at_; }
  // Gives everything back.
  void clear() { used_ = 0; }

  // Gives back, when it goes out of scope, whatever was taken since it was opened.
  class Frame {
   public:
    explicit Frame(Arena& arena) : arena_(arena), used_(arena.used_) {}
    ~Frame() { arena_.used_ = used_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Arena& arena_;
    std::size_t used_;
  };

 private:
  void* take_bytes(std::size_t bytes);

  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> block_;
  bool dry_ = false;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
  Place peak_at_;
  std::size_t largest_ = 0;
  Place largest_at_;
};

}  // namespace longspan
