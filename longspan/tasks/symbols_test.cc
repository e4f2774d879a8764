#include "longspan/tasks/symbols.h"

#include <gtest/gtest.h>

#include <set>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace symbols_test {

using testing::message_of;

TEST(Symbols, AreDrawnFromAllAndDependOnKeyAndNumberAlone) {
  std::set<std::int32_t> seen;
  std::vector<std::int32_t> a(50);
  for (std::uint64_t i = 0; i < 20; ++i) {
    draw_symbols(3, i, 7, a);
    seen.insert(a.begin(), a.end());
  }
  EXPECT_EQ(seen, (std::set<std::int32_t>{1, 2, 3, 4, 5, 6, 7}));
  std::vector<std::int32_t> b(50);
  draw_symbols(3, 19, 7, b);
  EXPECT_EQ(a, b);
  draw_symbols(3, 18, 7, b);
  EXPECT_NE(a, b);
  draw_symbols(4, 19, 7, b);
  EXPECT_NE(a, b);
}

TEST(Symbols, AreReadAndWritten) {
  EXPECT_EQ(read_symbols("copy", " 3 17\n5", 17), (std::vector<std::int32_t>{3, 17, 5}));
  EXPECT_EQ(write_symbols(std::vector<std::int32_t>{3, 17}), "3 17 ");
  EXPECT_EQ(message_of([] { read_symbols("copy", "3 18", 17); }),
            "[copy] the symbol 18; need 1 to 17");
  EXPECT_EQ(message_of([] { read_symbols("copy", "x", 17); }),
            "[copy] a symbol is 'x'; need a whole number");
  EXPECT_EQ(message_of([] { read_symbols("copy", "\n", 17); }),
            "[copy] no symbols; need some from 1 to 17, such as \"3 1 2\"");
}

}  // namespace symbols_test
}  // namespace longspan
