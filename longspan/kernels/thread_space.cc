#include "longspan/kernels/thread_space.h"

#include <hwy/aligned_allocator.h>

#include "longspan/base/error.h"

namespace longspan::detail {

float* thread_space(std::size_t floats) {
  thread_local hwy::AlignedFreeUniquePtr<float[]> space;
  thread_local std::size_t size = 0;
  if (floats > size) {
    space.reset();
    size = 0;
    space = hwy::AllocateAligned<float>(floats);
    if (space == nullptr) {
      throw SystemError(
          fmt::format("[kernels] the machine refused {} bytes for a thread's scratch; "
                      "use a smaller model or fewer threads",
                      sizeof(float) * floats));
    }
    size = floats;
  }
  return space.get();
}

}  // namespace longspan::detail
