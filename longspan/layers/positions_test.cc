#include "longspan/layers/positions.h"

#include <gtest/gtest.h>

#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace positions_test {

using testing::message_of;

// Products that wrap to a few bytes, and such that no machine holds.
constexpr std::size_t kHuge[] = {(std::size_t{1} << 61U) + 1, std::size_t{1} << 48U};

TEST(Positions, TablesThatNoMachineHoldsAreRefused) {
  for (const std::size_t positions : kHuge) {
    const std::string sinusoids =
        message_of([&] { sinusoidal_table(PositionKind::kSinusoidal, positions, 8); });
    EXPECT_NE(sinusoids.find("[positions] the tables of positions need"), std::string::npos)
        << sinusoids;
    RotaryTable rotary({}, positions, 8);
    const std::string angles = message_of([&] { rotary.allocate(); });
    EXPECT_NE(angles.find("[positions] the tables of positions need"), std::string::npos) << angles;
  }
}

TEST(Positions, BehindTheTableAreRefused) {
  RotaryTable rotary({}, 4, 2);
  rotary.allocate();
  std::vector<float> x(8);
  const Heads heads(x.data(), 1, 1, 4, 2);
  rotary.apply(heads, 0, false);
  for (const std::size_t first : {std::size_t{1}, std::size_t{0} - 1}) {
    EXPECT_NE(message_of([&] { rotary.apply(heads, first, false); }), "") << first;
  }
}

}  // namespace positions_test
}  // namespace longspan
