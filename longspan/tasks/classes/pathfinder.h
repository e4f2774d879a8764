// Pathfinder of the Long Range Arena: whether two marks are the ends of one dashed path
// (path_picture.h), from the pixels one after the other.
//
// Drawn, or read: the published images (path_files.h), or the files that `pixels` reads, of two
// classes.
#pragma once

#include "longspan/base/number.h"
#include "longspan/tasks/classes/class_task.h"
#include "longspan/tasks/example_source.h"
#include "longspan/tasks/image_size.h"

namespace longspan {

class PathfinderTask final : public ClassTask {
 public:
  static constexpr std::string_view kName = "pathfinder";

  struct Config {
    ExampleSource source;
    std::size_t side = 32;
    std::size_t dashes = 6;
    std::size_t distractors = 6;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      source.visit(see, "The directory of the images; drawn unless given");
      see("side", side, "Pixels of a side of a drawn image", from_to(8, 1024));
      see("dashes", dashes, "Of a long path, its difficulty: 6, 9 or 14", from_to(1, 1000));
      see("distractors", distractors, "Short paths beside the two long ones", from_to(0, 1000));
    }
  };

  explicit PathfinderTask(Config config);

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  std::string_view idle(std::string_view option) const override;
  // Of what was drawn the options say all.
  std::string checksum() const override {
    return config_.source.drawn() ? "" : ClassTask::checksum();
  }
  std::string describe() const override;
  void open() override;
  TaskOptions learned() const override { return facts_of(size()); }
  void use_learned(const TaskOptions& facts) override { trained_ = image_size_from(kName, facts); }

 private:
  LabelledSplits read() const override;
  std::size_t vocabulary_size() const override { return 256; }
  std::size_t longest() const override { return opened() ? splits().training.longest() : 0; }
  ImageSize size() const { return ImageSize::of_pixels(longest()); }

  Config config_;
  ImageSize trained_;
};

}  // namespace longspan
