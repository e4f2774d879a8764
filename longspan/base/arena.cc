#include "longspan/base/arena.h"

#include <algorithm>
#include <cstdlib>
#include <new>

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

void* Arena::take_bytes(std::size_t bytes) {
  require(bytes <= capacity_ - used_,
          "[arena] {} bytes are booked and {} in use; {} more do not fit: the footprint is wrong",
          capacity_, used_, bytes);
  void* p = block_.get() + used_;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return p;
}

}  // namespace longspan
