#include "longspan/base/parallel.h"

#include <gtest/gtest.h>

#include <string>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "longspan/base/error.h"

namespace longspan {
namespace parallel_test {

class Parallel : public ::testing::TestWithParam<int> {
 protected:
  Parallel() : usual_(thread_count()) { set_thread_count(GetParam()); }
  ~Parallel() override { set_thread_count(usual_); }
  int usual_;
};

TEST_P(Parallel, EveryTaskRunsOnce) {
  EXPECT_EQ(thread_count(), GetParam());
  for (const std::size_t tasks : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> runs(tasks);
    std::atomic<std::size_t> largest_worker = 0;
    parallel_for(tasks, [&](std::size_t task, std::size_t worker) {
      ++runs[task];
      if (worker > largest_worker) largest_worker = worker;
    });
    for (const auto& r : runs) EXPECT_EQ(r, 1);
    EXPECT_LT(largest_worker, static_cast<std::size_t>(GetParam()));
  }
}

// Task 1 is behind task 0 in the run of the same thread, which waits for somebody else to take it.
TEST_P(Parallel, IdleThreadsTakeWhatOthersHaveNotStarted) {
  if (GetParam() == 1) return;  // there is nobody else
  std::atomic<bool> taken = false;
  bool seen = false;
  parallel_for(2 * static_cast<std::size_t>(GetParam()), [&](std::size_t task, std::size_t) {
    if (task == 1) taken = true;
    if (task != 0) return;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!taken && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    seen = taken;
  });
  EXPECT_TRUE(seen);
}

TEST_P(Parallel, RangesCoverExactly) {
  for (const std::size_t n : {0, 1, 15, 16, 17, 100}) {
    std::vector<std::atomic<int>> seen(n);
    parallel_ranges(n, 16, [&](std::size_t begin, std::size_t end) {
      EXPECT_EQ(begin % 16, 0U);
      EXPECT_LE(end - begin, 16U);
      for (std::size_t i = begin; i < end; ++i) ++seen[i];
    });
    for (const auto& s : seen) EXPECT_EQ(s, 1);
  }
}

TEST_P(Parallel, NestedTasksStayOnTheirThread) {
  std::vector<std::atomic<int>> runs(12);
  parallel_for(3, [&](std::size_t outer, std::size_t worker) {
    parallel_for(4, [&](std::size_t inner, std::size_t own) {
      EXPECT_EQ(own, worker) << "the worker names the same scratch";
      ++runs[outer * 4 + inner];
    });
  });
  for (const auto& r : runs) EXPECT_EQ(r, 1);
}

// Sums over fixed pieces, added in order: the same bits for any number of threads.
float sum_in_pieces() {
  std::vector<float> part(63);
  parallel_ranges(1000, 16, [&](std::size_t begin, std::size_t end) {
    float sum = 0.0F;
    for (std::size_t i = begin; i < end; ++i) sum += 1.0F / static_cast<float>(i + 1);
    part[begin / 16] = sum;
  });
  float total = 0.0F;
  for (const float p : part) total += p;
  return total;
}

TEST_P(Parallel, PartitionDoesNotDependOnThreads) {
  const float here = sum_in_pieces();
  set_thread_count(1);
  EXPECT_EQ(here, sum_in_pieces());
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, ::testing::Values(1, 2, 3, 8, 70));

TEST(Parallel, WhatATaskThrowsReachesTheCaller) {
  const int usual = thread_count();
  for (const int threads : {1, 3}) {
    set_thread_count(threads);
    std::string said;
    try {
      parallel_for(100, [&](std::size_t task, std::size_t) {
        if (task == 57) throw SystemError("the machine refused");
      });
    } catch (const SystemError& error) {
      said = error.what();
    }
    EXPECT_EQ(said, "the machine refused") << threads << " threads";
    std::atomic<int> done = 0;
    parallel_for(10, [&](std::size_t, std::size_t) { ++done; });
    EXPECT_EQ(done, 10) << "and the next loop runs";
  }
  set_thread_count(usual);
}

}  // namespace parallel_test
}  // namespace longspan
