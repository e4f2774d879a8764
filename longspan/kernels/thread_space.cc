#include "longspan/kernels/thread_space.h"

#include <hwy/aligned_allocator.h>

#include "longspan/base/error.h"
#include "longspan/base/thread_kept.h"

namespace longspan::detail {

namespace {

struct Space {
  hwy::AlignedFreeUniquePtr<float[]> floats;
  std::size_t size = 0;
};

}  // namespace

float* thread_space(std::size_t floats) {
  static const ThreadKept<Space> kept;
  Space& space = kept();
  if (floats > space.size) {
    space = {};
    space.floats = hwy::AllocateAligned<float>(floats);
    if (space.floats == nullptr) {
      throw SystemError(
          fmt::format("[kernels] the machine refused {} bytes for a thread's scratch; "
                      "use a smaller model or fewer threads",
                      sizeof(float) * floats));
    }
    space.size = floats;
  }
  return space.floats.get();
}

}  // namespace longspan::detail
