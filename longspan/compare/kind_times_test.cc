#include "longspan/compare/kind_times.h"

#include <gtest/gtest.h>

#include "longspan/base/cost.h"

namespace longspan {
namespace kind_times_test {

constexpr CompareRoofline kRoofline{1e9, 1e8};  // 10 FLOPs per byte where they meet

Work work(std::uint64_t products, Kind kind, std::uint64_t other, std::uint64_t bytes) {
  Work w = maccs(products) + flops(kind, other);
  w.bytes[static_cast<std::size_t>(kind)] = bytes;
  return w;
}

TEST(KindTimes, AKernelOfOneKindHasItsTime) {
  const std::vector<Meter::Lap> laps = {{work(0, Kind::kSoftmax, 100, 80), 3.0},
                                        {work(500, Kind::kMatmul, 0, 8), 1.0}};
  const auto kinds = kind_times(laps, kRoofline, 8.0);
  ASSERT_EQ(kinds.size(), 2);
  EXPECT_EQ(kinds[0].kind, "softmax");
  EXPECT_DOUBLE_EQ(kinds[0].seconds, 6.0);
  EXPECT_EQ(kinds[0].bytes, 80);
  EXPECT_EQ(kinds[0].bound, "memory");
  EXPECT_EQ(kinds[1].kind, "matmul");
  EXPECT_DOUBLE_EQ(kinds[1].seconds, 2.0);
  EXPECT_EQ(kinds[1].flops, 1000);
  EXPECT_EQ(kinds[1].bound, "compute");
}

TEST(KindTimes, AFusedKernelIsDivided) {
  // Alone: products 800/1e9, softmax 8·100/1e9: equal.
  const std::vector<Meter::Lap> laps = {{work(400, Kind::kSoftmax, 100, 0), 2.0}};
  const auto kinds = kind_times(laps, kRoofline, 2.0);
  ASSERT_EQ(kinds.size(), 2);
  EXPECT_DOUBLE_EQ(kinds[0].seconds, 1.0);
  EXPECT_DOUBLE_EQ(kinds[1].seconds, 1.0);
}

TEST(KindTimes, NothingWasDone) { EXPECT_TRUE(kind_times({}, kRoofline, 1.0).empty()); }

}  // namespace kind_times_test
}  // namespace longspan
