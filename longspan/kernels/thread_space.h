// Memory that a kernel needs while it runs. Internal to the kernels.
#pragma once

#include <cstddef>

namespace longspan::detail {

// Of the calling thread, which keeps it for the next call; what is in it is lost then.
float* thread_space(std::size_t floats);

}  // namespace longspan::detail
