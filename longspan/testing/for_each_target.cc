#include "longspan/testing/for_each_target.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "longspan/base/parallel.h"
#include "longspan/kernels/versions.h"

namespace longspan::testing {
namespace {

void bind(std::int64_t target) {  // 0: whatever the CPU supports
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

struct RestoreTarget {
  ~RestoreTarget() { bind(0); }
};

struct RestoreThreads {
  int count = thread_count();
  ~RestoreThreads() { set_thread_count(count); }
};

}  // namespace

void for_each_target(const std::function<void()>& body) {
  const RestoreTarget restore;
  bind(0);
  for (const std::int64_t target : kernel_targets()) {
    bind(target);
    SCOPED_TRACE(hwy::TargetName(target));
    body();
  }
}

void for_each_thread_count(const std::function<void()>& body) {
  const RestoreThreads restore;
  for (int threads = 1; threads <= 3; ++threads) {
    set_thread_count(threads);
    SCOPED_TRACE(::testing::Message() << threads << " threads");
    body();
  }
}

}  // namespace longspan::testing
