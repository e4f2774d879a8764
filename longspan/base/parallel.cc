#include "longspan/base/parallel.h"

#include <omp.h>

#include <algorithm>

namespace longspan {

int thread_count() { return omp_get_max_threads(); }
void set_thread_count(int count) { omp_set_num_threads(count); }

namespace detail {

void run_tasks(std::size_t tasks, TaskFunction function, void* context) {
  const bool nested = omp_in_parallel() != 0;
  const int threads = static_cast<int>(std::min(tasks, static_cast<std::size_t>(thread_count())));
  if (nested || threads <= 1) {
    const auto worker = static_cast<std::size_t>(omp_get_thread_num());
    for (std::size_t task = 0; task < tasks; ++task) function(context, task, worker);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::size_t task = 0; task < tasks; ++task) {
    function(context, task, static_cast<std::size_t>(omp_get_thread_num()));
  }
}

}  // namespace detail
}  // namespace longspan
