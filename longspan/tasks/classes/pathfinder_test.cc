#include "longspan/tasks/classes/pathfinder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "longspan/tasks/classes/path_picture.h"
#include "longspan/testing/temporary_directory.h"

namespace longspan {
namespace pathfinder_test {

using testing::message_of;

struct Pixel {
  int x = 0;
  int y = 0;
};

// Follows the dashes from each mark: what lies within a dash and the gap behind it belongs to one
// path. Paths are farther apart than that only on average, so this is a check of most pictures.
bool seem_connected(const PathPicture& picture, int side, double reach) {
  std::vector<Pixel> ink;
  std::vector<std::size_t> marks;
  for (int i = 0; i < side * side; ++i) {
    const std::uint8_t value = picture.pixels[static_cast<std::size_t>(i)];
    if (value == 0) continue;
    if (value == 255) marks.push_back(ink.size());
    ink.push_back({i % side, i / side});
  }
  std::vector<bool> seen(ink.size());
  std::vector<std::size_t> open = {marks.front()};
  seen[marks.front()] = true;
  while (!open.empty()) {
    const Pixel at = ink[open.back()];
    open.pop_back();
    for (std::size_t i = 0; i < ink.size(); ++i) {
      if (seen[i] || std::hypot(ink[i].x - at.x, ink[i].y - at.y) > reach) continue;
      seen[i] = true;
      open.push_back(i);
    }
  }
  return std::ranges::all_of(marks, [&](std::size_t m) { return seen[m]; });
}

TEST(Pathfinder, MarksAreConnectedWhereTheLabelSaysSo) {
  // Far apart in a large picture, so that following is no guess.
  const PathRules rules{.side = 64, .dashes = 6, .distractors = 0};
  int right = 0;
  constexpr int kDrawn = 200;
  for (int i = 0; i < kDrawn; ++i) {
    const PathPicture picture = draw_paths(derive(1, static_cast<std::uint64_t>(i)), rules);
    ASSERT_EQ(picture.pixels.size(), 64U * 64U);
    right += seem_connected(picture, 64, 2.3) == (picture.connected == 1) ? 1 : 0;
  }
  EXPECT_GT(right, kDrawn * 9 / 10);
}

TEST(Pathfinder, EveryLevelIsDrawnAndBalanced) {
  for (const std::size_t dashes : {6U, 9U, 14U}) {
    PathfinderTask task({.source = {.examples = 200, .held_out = 50}, .dashes = dashes});
    task.open();
    EXPECT_EQ(task.needs().length, 1024U);
    EXPECT_EQ(task.needs().classes, 2U);
    BatchMemory memory;
    const Batch batch = task.batch(Split::kTraining, {.first = 0, .count = 200}, memory);
    const auto connected = std::ranges::count(batch.targets, 1);
    EXPECT_GT(connected, 70);
    EXPECT_LT(connected, 130);
    const std::set<std::int32_t> levels(batch.tokens.begin(), batch.tokens.end());
    EXPECT_EQ(levels, (std::set<std::int32_t>{0, 150, 255}));
  }
}

// As much ink, and as many marks, whatever the answer.
TEST(Pathfinder, TheAmountOfInkSaysNothing) {
  double ink[2] = {};
  double count[2] = {};
  for (std::uint64_t i = 0; i < 600; ++i) {
    const PathPicture picture = draw_paths(derive(2, i), {});
    ink[picture.connected] += static_cast<double>(
        std::ranges::count_if(picture.pixels, [](std::uint8_t p) { return p > 0; }));
    ++count[picture.connected];
  }
  EXPECT_NEAR(ink[0] / count[0], ink[1] / count[1], 1.5);
}

TEST(Pathfinder, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(message_of([] { draw_paths(1, {.side = 8, .dashes = 14, .distractors = 6}); }),
            "[pathfinder] two paths of 14 dashes and 6 short ones do not fit into 8x8 pixels; need "
            "a larger side, or fewer");
  EXPECT_NE(message_of([] {
              PathfinderTask({.source = {.data = LONGSPAN_SOURCE_DIR "/data/mnist-small"}}).open();
            }).find("need 0 and 1"),
            std::string::npos);
}

}  // namespace pathfinder_test
}  // namespace longspan
