#include "longspan/base/arena.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "longspan/base/error.h"

namespace longspan {
namespace arena_test {

TEST(Arena, BlocksAreAlignedAndDoNotOverlap) {
  Arena arena(4096);
  const auto a = arena.take<float>(1);
  const auto b = arena.take<double>(9);
  const Matrix c = arena.matrix(3, 5);
  for (const void* p : {static_cast<const void*>(a.data()), static_cast<const void*>(b.data()),
                        static_cast<const void*>(c.data)}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % Arena::kAlignment, 0U);
  }
  EXPECT_GE(static_cast<const void*>(b.data()), static_cast<const void*>(a.data() + a.size()));
  EXPECT_GE(static_cast<const void*>(c.data), static_cast<const void*>(b.data() + b.size()));
  EXPECT_EQ(arena.used(), Arena::bytes_for(1) + Arena::bytes_for<double>(9) + Arena::bytes_for(15));
  EXPECT_TRUE(c.contiguous());
}

TEST(Arena, BytesAreRoundedToTheAlignment) {
  EXPECT_EQ(Arena::bytes_for(0), 0U);
  EXPECT_EQ(Arena::bytes_for(1), 64U);
  EXPECT_EQ(Arena::bytes_for(16), 64U);
  EXPECT_EQ(Arena::bytes_for(17), 128U);
  EXPECT_EQ(Arena::bytes_for<std::uint8_t>(65), 128U);
}

TEST(Arena, SaysWhenTheBookingWasTooSmall) {
  Arena arena(192);
  arena.take(16);
  try {
    arena.take(33);
    FAIL() << "took more than there is";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "[arena] 192 bytes are booked and 64 in use; 192 more do not fit: the booking "
                 "is wrong");
  }
  EXPECT_EQ(arena.used(), 64U) << "a refusal takes nothing";
  EXPECT_NO_THROW(arena.take(32));
  EXPECT_THROW(arena.take(1), Error);
}

TEST(Arena, AnEmptyOneGivesNothing) {
  Arena arena;
  EXPECT_EQ(arena.take(0).size(), 0U);
  EXPECT_THROW(arena.take(1), Error);
}

TEST(Arena, SaysWhenTheMachineRefuses) { EXPECT_THROW(Arena(std::size_t{1} << 62U), SystemError); }

TEST(Arena, FramesGiveBackWhatWasTakenInside) {
  Arena arena(1024);
  arena.take(16);
  float* inner = nullptr;
  {
    const Arena::Frame outer(arena);
    arena.take(32);
    {
      const Arena::Frame frame(arena);
      inner = arena.take(48).data();
      EXPECT_EQ(arena.used(), 64U + 128U + 192U);
    }
    EXPECT_EQ(arena.used(), 64U + 128U);
    EXPECT_EQ(arena.take(1).data(), inner) << "the memory is used again";
  }
  EXPECT_EQ(arena.used(), 64U);
  EXPECT_EQ(arena.peak(), 64U + 128U + 192U);
  arena.reset_peak();
  EXPECT_EQ(arena.peak(), 64U);
  arena.clear();
  EXPECT_EQ(arena.used(), 0U);
}

TEST(Arena, DryTakesAsMuch) {
  Arena arena(4096);
  Arena dry = Arena::dry();
  for (Arena* a : {&arena, &dry}) {
    a->take(20);
    {
      const Arena::Frame frame(*a);
      a->take(100);
      const Arena::Frame inner(*a);
      a->take<double>(7);
    }
    a->take(3);
  }
  EXPECT_EQ(dry.used(), arena.used());
  EXPECT_EQ(dry.peak(), arena.peak());
  EXPECT_EQ(dry.largest(), arena.largest());
}

TEST(Arena, DryHasAddressesAtRealDistances) {
  Arena dry = Arena::dry();
  const auto a = dry.take(3);
  const auto b = dry.take(std::size_t{1} << 50U);
  const auto c = dry.take(1);
  EXPECT_NE(a.data(), nullptr);
  EXPECT_EQ(b.data() - a.data(), 16);
  EXPECT_EQ(c.data() - b.data(), std::ptrdiff_t{1} << 50U);
}

// A product that wraps would be a small block for large views.
TEST(Arena, MatricesThatWouldWrapAreRefused) {
  const std::size_t huge = (std::size_t{1} << 61U) + 1;
  for (const bool is_dry : {true, false}) {
    Arena arena = is_dry ? Arena::dry() : Arena(4096);
    EXPECT_THROW(arena.matrix(huge, 8), Error);
    EXPECT_THROW(arena.take<double>(huge), Error);
    EXPECT_THROW(arena.take<std::byte>(std::size_t{0} - 1), Error);
    EXPECT_EQ(arena.used(), 0U);
  }
}

TEST(ArenaDeathTest, NobodyCanReadDryMemory) {
  Arena dry = Arena::dry();
  const volatile float* p = dry.take(1).data();
  EXPECT_DEATH(static_cast<void>(*p), "");
}

TEST(Arena, SaysWhereItsPeakIs) {
  Arena arena = Arena::dry();
  const auto touch = [&](std::size_t floats) {
    const Arena::Frame frame(arena);
    arena.take(floats);
  };
  {
    const Place::Scope place("a", Phase::kForward);
    arena.take(160);
  }
  const Place::Block block(1);
  {
    const Place::Scope place("b", Phase::kForward);
    touch(96);
  }
  const Place::Scope place("b", Phase::kBackward);
  touch(96);
  touch(80);
  EXPECT_EQ(arena.peak(), 1024U);
  EXPECT_EQ(arena.peak_at().text(), "forward of block 2: b");
  EXPECT_EQ(arena.largest(), 640U);
  EXPECT_EQ(arena.largest_at().text(), "forward: a");
}

}  // namespace arena_test
}  // namespace longspan
