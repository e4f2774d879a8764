#include "longspan/base/arena.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "longspan/base/dry.h"
#include "longspan/base/error.h"
#include "longspan/base/large_pages.h"

namespace longspan {

Arena::Arena(std::size_t bytes) : capacity_(bytes) {
  if (bytes == 0) return;
  const std::size_t rounded = bytes_for<std::byte>(bytes);
  auto* block = static_cast<std::byte*>(allocate_pages(rounded));
  if (block == nullptr) {
    throw SystemError(
        fmt::format("[arena] the machine refused {} bytes; use a shorter length, a "
                    "smaller batch or an attention with less memory",
                    bytes));
  }
  block_.reset(block);
}

void Arena::Free::operator()(std::byte* p) const { std::free(p); }

Arena Arena::dry() {
  Arena arena;
  arena.dry_ = true;
  arena.capacity_ = kTooMany - 1;
  return arena;
}

void* Arena::take_bytes(std::size_t bytes) {
  require(!dry_ || bytes <= capacity_ - used_,
          "[arena] a step takes more than {} bytes; use a smaller model, batch or length",
          capacity_);
  require(bytes <= capacity_ - used_,
          "[arena] {} bytes are booked and {} in use; {} more do not fit: the booking is wrong",
          capacity_, used_, bytes);
  void* p = dry_ ? Dry::memory<std::byte>(bytes, used_).data() : block_.get() + used_;
  used_ += bytes;
  if (used_ > peak_) {
    peak_ = used_;
    peak_at_ = Place::now();
  }
  if (bytes > largest_) {
    largest_ = bytes;
    largest_at_ = Place::now();
  }
  return p;
}

}  // namespace longspan
