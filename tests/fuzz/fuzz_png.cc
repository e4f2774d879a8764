// PNG files, alone and as an image of a Pathfinder data set.
#include <string>

#include "longspan/io/grey_png.h"
#include "longspan/tasks/classes/path_files.h"
#include "longspan/testing/png_bytes.h"
#include "longspan/testing/temporary_directory.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/tree.h"

namespace longspan::fuzz {

namespace {

const std::vector<nlohmann::json>& png_trees() {
  static const std::vector<nlohmann::json> trees = {
      {{"width", 4},
       {"height", 3},
       {"depth", 8},
       {"colour", 0},
       {"interlaced", 0},
       {"palette", 0},
       {"rows", {0, 1, 2, 3, 4, 1, 5, 6, 7, 8, 2, 9, 9, 9, 9}}}};
  return trees;
}

std::uint64_t field_of(const nlohmann::json& tree, const char* name) {
  const auto found = tree.is_object() ? tree.find(name) : tree.end();
  const bool there = tree.is_object() && found != tree.end() && found->is_number_integer();
  return there ? found->get<std::uint64_t>() : 0;
}

// With checksums that are right, so that what is behind them is read.
std::string edited_png(const nlohmann::json& tree) {
  const testing::PngForm form{
      .width = static_cast<std::uint32_t>(field_of(tree, "width")),
      .height = static_cast<std::uint32_t>(field_of(tree, "height")),
      .depth = static_cast<std::uint8_t>(field_of(tree, "depth")),
      .colour = static_cast<std::uint8_t>(field_of(tree, "colour")),
      .interlaced = static_cast<std::uint8_t>(field_of(tree, "interlaced"))};
  std::string rows;
  if (tree.is_object() && tree.contains("rows") && tree["rows"].is_array()) {
    for (const auto& byte : tree["rows"]) {
      rows += static_cast<char>(byte.is_number_integer() ? byte.get<std::uint64_t>() : 0);
    }
  }
  const std::string palette(std::min<std::uint64_t>(field_of(tree, "palette"), 1000), '\x7F');
  return testing::png_bytes(form, rows, palette.empty() ? "" : testing::png_chunk("PLTE", palette));
}

}  // namespace

int fuzz_png(Bytes input) {
  const std::string bytes =
      edits(input) ? edited_png(edited(png_trees(), input)) : std::string(text_of(input));
  outcome_of([&] {
    const GreyImage image = grey_png("image", bytes);
    demand(image.pixels.size() == image.width * image.height, "as many pixels as the sides say");
  });
  const std::filesystem::path level = scratch() / "level";
  std::filesystem::create_directories(level / "metadata");
  testing::write_bytes(level / "metadata" / "0.npy", ". a.png 0 1\n. a.png 0 0\n");
  testing::write_bytes(level / "a.png", bytes);
  return outcome_of([&] {
    const LabelledSplits all = read_path_files(level);
    std::vector<std::uint8_t> pixels;
    for (const Labelled* set : {&all.training, &all.validation, &all.test}) {
      for (std::size_t i = 0; i < set->size(); ++i) set->read(i, 0, pixels);
    }
  });
}

}  // namespace longspan::fuzz
