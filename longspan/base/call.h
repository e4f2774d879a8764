// Calls: every public kernel says what it was asked to do, to whoever listens.
//
// A kernel opens with its Called; dry it returns at once, and either way the listener hears of the
// call when the kernel ends, so that the time since the call before is its own. When nobody listens
// a call costs one comparison and is not even described.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "longspan/base/dry.h"
#include "longspan/base/work.h"

namespace longspan {

// What a call is timed as, together with its variant.
enum class Op : std::uint8_t {
  kProduct,  // variant: "forward" x·Wᵀ, kPackedProduct, "backward" dy·W, "update" dyᵀ·x
  kActivation,
  kActivationBackward,
  kGated,
  kGatedBackward,
  kNorm,
  kNormSaved,
  kNormBackward,
  kNormUpdate,
  kSoftmax,
  kLoss,
  kLossForward,
  kLossBackward,
  kAdd,         // one or two operands, element by element
  kMove,        // copies and fills
  kColumnSums,  //
  kDropout,     //
  kRotary,      //
  kFourier,     //
  kGather,      //
  kScatter,     //
  kSquares,     //
  kStep,        // of an optimiser
  kAttention,   // a mechanism's forward; rows are queries
  kAttentionBackward,
  kAttentionUpdate,
  kInside,  // reported from within a mechanism
};
inline constexpr std::size_t kOps = 27;
std::string_view name_of(Op op);

struct Call {
  Op op = Op::kInside;
  std::string_view variant = {};
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t inner = 0;        // of a product rows×inner by inner×cols
  std::string_view fused = {};  // an activation that is applied to the product's tiles
  Work work = {};

  bool operator==(const Call&) const = default;
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual void hear(const Call& call) = 0;

  // While it lives, calls from this thread are heard by `listener`.
  class Use {
   public:
    explicit Use(Listener& listener) : before_(std::exchange(current_, &listener)) {}
    ~Use() { current_ = before_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Listener* before_;
  };
  static Listener* current() { return current_; }

  // While it lives nobody hears: a kernel that calls others reports them as one.
  class Mute {
   public:
    Mute() : before_(std::exchange(current_, nullptr)) {}
    ~Mute() { current_ = before_; }
    Mute(const Mute&) = delete;
    Mute& operator=(const Mute&) = delete;

   private:
    Listener* before_;
  };

 private:
  static thread_local Listener* current_;
};

// Describe() gives the Call; it is asked when the kernel ends, and only if somebody listens.
template <class Describe>
class Called {
 public:
  explicit Called(Describe describe) : describe_(std::move(describe)) {}
  ~Called() {
    if (Listener* listener = Listener::current()) listener->hear(describe_());
  }
  Called(const Called&) = delete;
  Called& operator=(const Called&) = delete;

  // Whether the kernel is to return without doing anything.
  static bool dry() { return Dry::on(); }

 private:
  Describe describe_;
};

// Copies and fills: counted as calls, with no work that anybody would compare.
inline Call move_call(std::size_t rows, std::size_t cols) {
  return {.op = Op::kMove, .rows = rows, .cols = cols};
}

// `flops` and `bytes` are those of an element.
inline Call row_call(Op op, std::string_view variant, std::size_t rows, std::size_t cols, Kind kind,
                     std::uint64_t flops_each, std::uint64_t bytes_each) {
  const std::uint64_t elements = std::uint64_t{rows} * cols;
  return {.op = op,
          .variant = variant,
          .rows = rows,
          .cols = cols,
          .work = flops(kind, flops_each * elements, bytes_each * elements)};
}

inline constexpr std::string_view kPackedProduct = "packed";  // "forward" with packed weights

// C = A·B with A rows×inner and B inner×cols.
inline Call product_call(std::string_view variant, std::size_t rows, std::size_t cols,
                         std::size_t inner) {
  Call call{.op = Op::kProduct, .variant = variant, .rows = rows, .cols = cols, .inner = inner};
  const std::uint64_t m = rows;
  call.work.maccs = m * cols * inner;
  call.work.bytes_of(Kind::kMatmul) = 4 * (m * inner + std::uint64_t{inner} * cols + m * cols);
  return call;
}

// What a mechanism did, from within.
inline void report(const Work& work) {
  if (Listener* listener = Listener::current()) listener->hear({.work = work});
}

}  // namespace longspan
