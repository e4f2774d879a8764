#include "longspan/kernels/gemm/fma_peak.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longspan/base/parallel.h"

namespace longspan {
namespace fma_peak_test {

TEST(FmaPeak, IsARateAndLeavesTheThreadsAlone) {
  const int threads = thread_count();
  for (const int count : {1, 2}) {
    set_thread_count(count);
    const double peak = fma_peak(0.005);
    EXPECT_TRUE(std::isfinite(peak));
    // Any processor since 2005 has more, none has this many: a chain that the compiler removed
    // would show as an absurd rate.
    EXPECT_GT(peak, 1e8);
    EXPECT_LT(peak, 1e13 * count);
    EXPECT_EQ(thread_count(), count);
  }
  set_thread_count(threads);
}

TEST(FmaPeak, NamesTheInstructionSet) {
  EXPECT_FALSE(instruction_set().empty());
  EXPECT_NE(instruction_set(), "Unknown");
}

}  // namespace fma_peak_test
}  // namespace longspan
