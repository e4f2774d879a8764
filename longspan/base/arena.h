// Arena: the memory of a step, booked once before it runs.
//
// A stack: `take` pushes, a Frame pops everything pushed since it was opened. The high-water mark
// is what a layer's footprint() must predict, to the byte.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "longspan/base/view.h"

namespace longspan {

class Arena {
 public:
  // Every block starts at a multiple of this, so that vectors and cache lines are never split.
  static constexpr std::size_t kAlignment = 64;

  Arena() = default;
  explicit Arena(std::size_t bytes);

  // What `take<T>(count)` consumes: the sizes in footprints are sums of this.
  template <class T = float>
  static constexpr std::size_t bytes_for(std::size_t count) {
    return (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }

  // Uninitialised memory; throws Error when the booking was too small.
  template <class T = float>
  std::span<T> take(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    return {static_cast<T*>(take_bytes(bytes_for<T>(count))), count};
  }
  Matrix matrix(std::size_t rows, std::size_t cols) {
    return {take(rows * cols).data(), rows, cols};
  }

  std::size_t capacity() const { return capacity_; }
  std::size_t used() const { return used_; }
  std::size_t peak() const { return peak_; }
  void reset_peak() { peak_ = used_; }
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
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

// The same stack without memory: planning code takes and releases what the running code will, and
// its peak is how much to book.
class ArenaPlan {
 public:
  // Which part of a step takes. The texts are literals: a plan is made at every step.
  struct Moment {
    std::string_view phase;
    std::string_view layer;
    std::optional<std::size_t> block;  // of the stack that the layer belongs to
    bool operator==(const Moment&) const = default;
  };

  // What follows is taken at this moment.
  void at(const Moment& moment) { now_ = moment; }
  void take(std::size_t bytes) {
    used_ += bytes;
    if (used_ > peak_) {
      peak_ = used_;
      peak_at_ = now_;
    }
    if (bytes > largest_) {
      largest_ = bytes;
      largest_at_ = now_;
    }
  }
  // Something that is taken and given back at once.
  void touch(std::size_t bytes) {
    take(bytes);
    used_ -= bytes;
  }
  std::size_t used() const { return used_; }
  std::size_t peak() const { return peak_; }
  // When the peak was first reached.
  const Moment& peak_at() const { return peak_at_; }
  // The most that was taken at once, and when it first was.
  std::size_t largest() const { return largest_; }
  const Moment& largest_at() const { return largest_at_; }

  class Frame {
   public:
    explicit Frame(ArenaPlan& plan) : plan_(plan), used_(plan.used_) {}
    ~Frame() { plan_.used_ = used_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    ArenaPlan& plan_;
    std::size_t used_;
  };

 private:
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
  std::size_t largest_ = 0;
  Moment now_;
  Moment peak_at_;
  Moment largest_at_;
};

// What a layer keeps from forward to backward, and the most it takes on top while it runs (bytes).
struct Footprint {
  std::size_t saved = 0;
  std::size_t forward_scratch = 0;    // of a forward that saves
  std::size_t inference_scratch = 0;  // of a forward that does not
  std::size_t backward_scratch = 0;   // signals for accumulate included
  bool operator==(const Footprint&) const = default;
};

}  // namespace longspan
