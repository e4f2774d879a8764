#include "longspan/base/sizes.h"

#include <gtest/gtest.h>

#include <limits>

namespace longspan {
namespace sizes_test {

constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();

TEST(SizeProduct, IsTheProduct) {
  EXPECT_EQ(size_product(7), 7U);
  EXPECT_EQ(size_product(3, std::size_t{5}, std::size_t{7}), 105U);
  EXPECT_EQ(size_product(std::size_t{1} << 30U, std::size_t{1} << 29U), std::size_t{1} << 59U);
  EXPECT_EQ(size_product(0, kMost, kMost), 0U);
}

TEST(SizeProduct, NeverWraps) {
  EXPECT_EQ(size_product(kMost), kTooMany);
  EXPECT_EQ(size_product((std::size_t{1} << 61U) + 1, std::size_t{8}), kTooMany);
  EXPECT_EQ(size_product(std::size_t{1} << 32U, std::size_t{1} << 32U), kTooMany);
  EXPECT_EQ(size_product(kMost, kMost, kMost, std::size_t{3}), kTooMany);
}

}  // namespace sizes_test
}  // namespace longspan
