// Threads. The partition of the work never depends on how many there are, so neither do the
// results.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "longspan/base/integers.h"

namespace longspan {

int thread_count();
// The same, as the number of scratches that tasks may ask for.
inline std::size_t workers() { return static_cast<std::size_t>(thread_count()); }
void set_thread_count(int count);

namespace detail {
using TaskFunction = void (*)(void* context, std::size_t task, std::size_t worker);
void run_tasks(std::size_t tasks, TaskFunction function, void* context);
}  // namespace detail

// Calls body(task, worker) for each task in [0, tasks); worker < thread_count() names the scratch
// that the task may use. Each thread starts with a run of neighbouring tasks, in order, the same in
// every call of as many tasks, so that it finds in its cache what it wrote there; when it is done
// it takes from the others what they have not started, so put the longest first. Tasks must write
// to disjoint memory. What one throws reaches the caller when the others have ended; those not yet
// started are left out. Inside another parallel_for tasks run on the calling thread.
template <class Body>
void parallel_for(std::size_t tasks, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  detail::run_tasks(
      tasks,
      [](void* context, std::size_t task, std::size_t worker) {
        (*static_cast<Plain*>(context))(task, worker);
      },
      const_cast<void*>(
          static_cast<const void*>(&body)));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

// Cuts [0, n) into pieces of `grain` and calls body(begin, end) for each.
template <class Body>
void parallel_ranges(std::size_t n, std::size_t grain, Body&& body) {
  const std::size_t pieces = divide_up(n, grain);
  parallel_for(pieces, [&](std::size_t piece, std::size_t) {
    const std::size_t begin = piece * grain;
    body(begin, begin + grain < n ? begin + grain : n);
  });
}

}  // namespace longspan
