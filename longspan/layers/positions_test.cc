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

RotaryAngles angles(const std::string& options, std::size_t width, std::size_t positions,
                    double base = 10000.0) {
  return rotary_angles(rotary_of(options, {.base = base}), width, positions, false);
}

// Of gpt-oss and DeepSeek-V3, as their authors' code gives them.
TEST(Rotary, ScalesAsPublishedModelsDo) {
  const RotaryAngles oss = angles(
      "scaling=yarn,factor=32,original=4096,fast=32,slow=1,truncate=false", 64, 131072, 150000.0);
  EXPECT_NEAR(oss.frequencies[12], 6.79496e-3, 1e-8);
  EXPECT_NEAR(oss.frequencies[31], 3.02351e-7, 1e-12);
  EXPECT_NEAR(oss.amplitude, 1.346574, 1e-6);
  const RotaryAngles deep = angles("scaling=yarn,factor=40,original=4096,attention=1", 64, 163840);
  EXPECT_NEAR(deep.frequencies[12], 2.687936e-2, 1e-8);
  EXPECT_EQ(deep.amplitude, 1.0);
}

TEST(Rotary, ScalingsThatChangeNothing) {
  const RotaryAngles plain = angles("", 16, 100);
  for (const char* options :
       {"scaling=linear,factor=1", "scaling=dynamic,factor=4,original=100",
        "scaling=yarn,factor=1,original=50", "scaling=llama3,factor=1,original=50",
        "scaling=longrope,factor=1,original=50,short=1;1;1;1;1;1;1;1,long=2;2;2;2;2;2;2;2"}) {
    const RotaryAngles scaled = angles(options, 16, 100);
    EXPECT_EQ(scaled.amplitude, 1.0) << options;
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_NEAR(scaled.frequencies[i], plain.frequencies[i], 1e-15) << options;
    }
  }
}

TEST(Rotary, SaysWhatItNeeds) {
  const auto said = [](const std::string& options) {
    return message_of([&] { angles(options, 8, 10); });
  };
  EXPECT_EQ(said("scaling=yarn,factor=2"),
            "[rotary] scaling=yarn without original; need the positions it was trained for");
  EXPECT_EQ(
      said("width=5"),
      "[rotary] 5 channels of heads that are 8 wide; need an even width of at most the head's");
  EXPECT_EQ(said("scaling=longrope,factor=2,original=4,short=1;2,long=1;2"),
            "[rotary] short has 2 factors; need 4, half the channels that turn");
}

// Channels behind those that turn stay as they are, to the bit.
TEST(Rotary, APartTurns) {
  RotaryTable part({.width = 4}, 6, 10);
  RotaryTable alone({}, 6, 4);
  part.allocate();
  alone.allocate();
  std::vector<float> x(60);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3.0F;
  std::vector<float> first(24);
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = x[i / 4 * 10 + i % 4];
  const std::vector<float> before = x;
  part.apply(Heads(x.data(), 1, 1, 6, 10), 0, false);
  alone.apply(Heads(first.data(), 1, 1, 6, 4), 0, false);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(x[i], i % 10 < 4 ? first[i / 10 * 4 + i % 10] : before[i]) << i;
  }
}

}  // namespace positions_test
}  // namespace longspan
