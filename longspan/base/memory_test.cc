#include "longspan/base/memory.h"

#include <gtest/gtest.h>

namespace longspan {
namespace {

TEST(Memory, IsPlausible) {
  EXPECT_GT(available_memory(), std::uint64_t{1} << 20U);
  EXPECT_LT(available_memory(), std::uint64_t{1} << 50U);
}

TEST(Memory, FormatsWithAUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(std::uint64_t{128} << 30U), "128.0 GiB");
}

}  // namespace
}  // namespace longspan
