#include "longspan/base/large_pages.h"

#include <sys/mman.h>

#include <limits>

#include "longspan/base/integers.h"

namespace longspan {

void* allocate_pages(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kLargePage = std::size_t{1} << 21U;
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  const bool large = bytes >= 2 * kLargePage;
  const std::size_t unit = large ? kLargePage : kLine;
  void* memory = std::aligned_alloc(unit, round_up(bytes, unit));
  // Whole pages alone: one that the block only begins would be filled up in vain.
#ifdef MADV_HUGEPAGE
  if (large && memory != nullptr) madvise(memory, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
#endif
  return memory;
}

}  // namespace longspan
