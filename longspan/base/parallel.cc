#include "longspan/base/parallel.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <utility>

namespace longspan {

int thread_count() { return omp_get_max_threads(); }
void set_thread_count(int count) { omp_set_num_threads(count); }

namespace detail {
namespace {

// The tasks that a thread starts with, on a cache line of their own.
struct alignas(64) Share {
  std::atomic<std::size_t> next;
  std::size_t end;
};
constexpr std::size_t kMaxShares = 64;  // more threads than that start with another's

// The first of what the tasks throw: nothing may leave a parallel region but by this.
class Failure {
 public:
  bool any() const { return failed_.load(std::memory_order_relaxed); }
  void take(std::exception_ptr what) {
    if (!failed_.exchange(true)) what_ = std::move(what);
  }
  // When the threads have joined.
  void rethrow() const {
    if (what_ != nullptr) std::rethrow_exception(what_);
  }

 private:
  std::atomic<bool> failed_ = false;
  std::exception_ptr what_;
};

}  // namespace

void run_tasks(std::size_t tasks, TaskFunction function, void* context) {
  const bool nested = omp_in_parallel() != 0;
  const int threads = static_cast<int>(std::min(tasks, static_cast<std::size_t>(thread_count())));
  if (nested || threads <= 1) {
    const auto worker = static_cast<std::size_t>(omp_get_thread_num());
    for (std::size_t task = 0; task < tasks; ++task) function(context, task, worker);
    return;
  }
  const std::size_t shares = std::min(kMaxShares, static_cast<std::size_t>(threads));
  std::array<Share, kMaxShares> share;
  for (std::size_t s = 0; s < shares; ++s) {
    share[s].next.store(tasks * s / shares, std::memory_order_relaxed);
    share[s].end = tasks * (s + 1) / shares;
  }
  Failure failure;
#pragma omp parallel num_threads(threads)
  {
    const auto worker = static_cast<std::size_t>(omp_get_thread_num());
    for (std::size_t turn = 0; turn < shares; ++turn) {
      Share& from = share[(worker + turn) % shares];
      for (;;) {
        const std::size_t task = from.next.fetch_add(1, std::memory_order_relaxed);
        if (task >= from.end || failure.any()) break;
        try {
          function(context, task, worker);
        } catch (...) {
          failure.take(std::current_exception());
        }
      }
    }
  }
  failure.rethrow();
}

}  // namespace detail
}  // namespace longspan
