#include "longspan/base/memory.h"

#include <gtest/gtest.h>

#include "longspan/base/error.h"

namespace longspan {
namespace memory_test {

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

TEST(Memory, ReadsUnits) {
  const auto parse = [](const char* text) { return parse_bytes("test", "memory", text); };
  EXPECT_EQ(parse("4096"), 4096U);
  EXPECT_EQ(parse("16GiB"), std::uint64_t{16} << 30U);
  EXPECT_EQ(parse("1.5 GB"), 1'500'000'000U);
  EXPECT_EQ(parse("2e3kB"), 2'000'000U);
  for (const char* bad : {"", "GiB", "16 QiB", "-1", "0", "1e30", "0.1", "16GiB "}) {
    EXPECT_THROW(parse(bad), Error) << bad;
  }
}

}  // namespace memory_test
}  // namespace longspan
