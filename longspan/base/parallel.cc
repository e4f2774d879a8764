#include "longspan/base/parallel.h"

#include <omp.h>

namespace longspan {

int thread_count() { return omp_get_max_threads(); }
void set_thread_count(int count) { omp_set_num_threads(count); }

namespace detail {

void run_tasks(std::size_t tasks, TaskFunction function, void* context) {
  if (tasks == 0) return;
  if (omp_in_parallel() != 0) {
    const auto worker = static_cast<std::size_t>(omp_get_thread_num());
    for (std::size_t task = 0; task < tasks; ++task) function(context, task, worker);
    return;
  }
  // A parallel region even for one thread or one task: libraries that look at omp_in_parallel()
  // must take the same path whatever the number of threads.
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t task = 0; task < tasks; ++task) {
    function(context, task, static_cast<std::size_t>(omp_get_thread_num()));
  }
}

}  // namespace detail
}  // namespace longspan
