#include "longspan/tasks/classes/pathfinder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "longspan/tasks/classes/path_picture.h"
#include "longspan/testing/png_bytes.h"
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

// Images of 4x2 pixels as the published ones lie; of image i all pixels are i, and the label is i % 2.
void write_level(const std::filesystem::path& level, int first, int count) {
  const std::string number = std::to_string(first / 100);
  std::filesystem::create_directories(level / "metadata");
  std::filesystem::create_directories(level / "imgs" / number);
  std::string lines;
  for (int i = first; i < first + count; ++i) {
    const std::string name = fmt::format("sample_{}.png", i - first);
    testing::write_bytes(level / "imgs" / number / name,
                         testing::grey_png_bytes(4, std::string(8, static_cast<char>(i))));
    lines += fmt::format("imgs/{} {} {} {} 1.8 6 2 0.75\n", number, name, i - first, i % 2);
  }
  testing::write_bytes(level / "metadata" / (number + ".npy"), lines);
}

TEST(Pathfinder, ThePublishedImagesAreRead) {
  const testing::TemporaryDirectory scratch;
  const auto level = scratch / "curv_baseline";
  write_level(level, 0, 100);
  write_level(level, 100, 20);
  for (const auto& data : {level, scratch.path()}) {
    PathfinderTask task({.source = {.data = data.string()}});
    task.open();
    EXPECT_EQ(task.examples(Split::kTraining), 96U);
    EXPECT_EQ(task.examples(Split::kValidation), 12U);
    EXPECT_EQ(task.examples(Split::kTest), 12U);
    EXPECT_EQ(task.needs().length, 8U);
    EXPECT_EQ(task.checksum().size(), 16U);
    std::multiset<std::int32_t> seen;
    for (const Split split : {Split::kTraining, Split::kValidation, Split::kTest}) {
      BatchMemory memory;
      const std::size_t count = task.examples(split);
      const Batch batch = task.batch(split, {.first = 0, .count = count}, memory);
      for (std::size_t row = 0; row < count; ++row) {
        EXPECT_EQ(batch.targets[row], batch.tokens[8 * row] % 2);
        EXPECT_EQ(batch.tokens[8 * row + 7], batch.tokens[8 * row]);
        seen.insert(batch.tokens[8 * row]);
      }
      const auto connected = std::ranges::count(batch.targets, 1);
      EXPECT_TRUE(connected > 0 && connected < std::ssize(batch.targets)) << "labels in turns";
    }
    EXPECT_EQ(seen.size(), 120U);
    EXPECT_EQ(std::set<std::int32_t>(seen.begin(), seen.end()).size(), 120U);
  }
  write_level(scratch / "curv_contour_length_9", 0, 10);
  EXPECT_EQ(
      message_of([&] { PathfinderTask({.source = {.data = scratch.path().string()}}).open(); }),
      "[pathfinder] " + scratch.path().string() +
          " has curv_baseline, curv_contour_length_9; need one of them in --data");
}

TEST(Pathfinder, BadLinesAndImagesAreRefused) {
  const testing::TemporaryDirectory scratch;
  write_level(scratch.path(), 0, 20);
  const auto metadata = scratch / "metadata" / "0.npy";
  const auto images = scratch / "imgs" / "0";
  const std::string sound = testing::read_bytes(metadata);
  const auto open = [&] {
    return message_of(
        [&] { PathfinderTask({.source = {.data = scratch.path().string()}}).open(); });
  };
  EXPECT_EQ(open(), "");
  const std::string at = "[pathfinder] " + metadata.string() + ":2: ";
  const auto why = [&](const std::string& second) {
    testing::write_bytes(metadata, "imgs/0 sample_0.png 0 0\n" + second + "\n" + sound);
    return open();
  };
  EXPECT_EQ(why("imgs/0 sample_0.png 0"),
            at + "3 words; need a directory, a file, a number and the label");
  EXPECT_EQ(why("imgs/0 sample_0.png 0 2"), at + "the label '2'; need 0 or 1");
  EXPECT_EQ(why("imgs/.. ../sample_0.png 0 1"),
            at + "the image 'imgs/../../sample_0.png'; need one below the directory of metadata");
  EXPECT_EQ(why("imgs/0 sample_99.png 0 1"), at + "there is no " +
                                                 (images / "sample_99.png").string() +
                                                 "; need all images that are named");
  testing::write_bytes(images / "wide.png", testing::grey_png_bytes(8, std::string(8, 'x')));
  EXPECT_EQ(why("imgs/0 wide.png 0 1"),
            at + "imgs/0/wide.png has 8x1 pixels; the first image has 4x2");
  testing::write_bytes(images / "text.png", "no image");
  EXPECT_EQ(why("imgs/0 text.png 0 1"),
            at + "[png] " + (images / "text.png").string() + ": is no PNG file");
  testing::write_bytes(images / "none.png", "");
  EXPECT_EQ(why("imgs/0 none.png 0 1"), "") << "one of the published images is empty";
  testing::write_bytes(metadata, "imgs/0 none.png 0 1\nimgs/0 none.png 0 1\n" + sound);
  EXPECT_NE(open().find(":2: " + (images / "none.png").string() + " is empty"), std::string::npos);
  testing::write_bytes(metadata, "\x93NUMPY\x01");
  EXPECT_NE(open().find(":1: an array of NumPy; need lines of"), std::string::npos);
  testing::write_bytes(metadata, "");
  EXPECT_NE(open().find("is empty; need at least one line"), std::string::npos);
  std::filesystem::remove(metadata);
  EXPECT_NE(open().find("has no .npy files; need one at least"), std::string::npos);
}

}  // namespace pathfinder_test
}  // namespace longspan
