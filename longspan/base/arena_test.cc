#include "longspan/base/arena.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "longspan/base/error.h"

namespace longspan {
namespace {

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
                 "[arena] 192 bytes are booked and 64 in use; 192 more do not fit: the footprint "
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

TEST(ArenaPlan, FollowsTheArena) {
  Arena arena(4096);
  ArenaPlan plan;
  arena.take(20);
  plan.take(Arena::bytes_for(20));
  {
    const Arena::Frame frame(arena);
    const ArenaPlan::Frame planned(plan);
    arena.take(100);
    plan.take(Arena::bytes_for(100));
    {
      const Arena::Frame inner(arena);
      arena.take(7);
    }
    plan.touch(Arena::bytes_for(7));
  }
  arena.take(3);
  plan.take(Arena::bytes_for(3));
  EXPECT_EQ(plan.used(), arena.used());
  EXPECT_EQ(plan.peak(), arena.peak());
}

TEST(ArenaPlan, SaysWhenItsPeakIs) {
  ArenaPlan plan;
  plan.at({.phase = "forward", .layer = "a"});
  plan.take(100);
  plan.at({.phase = "forward", .layer = "b", .block = 1});
  plan.touch(60);
  plan.at({.phase = "backward", .layer = "b", .block = 1});
  plan.touch(60);
  plan.touch(59);
  EXPECT_EQ(plan.peak(), 160U);
  EXPECT_EQ(plan.peak_at(), (ArenaPlan::Moment{"forward", "b", 1}));
  EXPECT_EQ(plan.largest(), 100U);
  EXPECT_EQ(plan.largest_at(), (ArenaPlan::Moment{"forward", "a", {}}));
}

}  // namespace
}  // namespace longspan
