#include "longspan/base/arena.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "longspan/base/error.h"

namespace longspan {

namespace {

// Large blocks ask for pages of 2 MiB: rows that are gathered from all over a long sequence would
// else look up the address of a 4 KiB page each.
constexpr std::size_t kHugePage = std::size_t{2} << 20U;
constexpr std::size_t kLarge = 2 * kHugePage;

void* allocate(std::size_t bytes) {
  const std::size_t alignment = bytes < kLarge ? Arena::kAlignment : kHugePage;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* block = std::aligned_alloc(alignment, rounded);
#ifdef __linux__
  // Refused where the system has none: then the pages are small.
  if (block != nullptr && alignment == kHugePage) madvise(block, rounded, MADV_HUGEPAGE);
#endif
  return block;
}

}  // namespace

Arena::Arena(std::size_t bytes) : capacity_(bytes) {
  if (bytes == 0) return;
  auto* block = static_cast<std::byte*>(allocate(bytes));
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
