// The class of an image from its pixels one after the other, row by row, each a token of 256 levels
// of grey (the images of the Long Range Arena).
//
// Reads what `images` reads, IDX and NumPy files, and the binary files of CIFAR-10, as grey images.
// The last tenth of the training images is for validation.
#pragma once

#include <filesystem>

#include "longspan/tasks/classes/class_task.h"
#include "longspan/tasks/image_size.h"

namespace longspan {

// The images of a directory as sequences of pixels.
LabelledSplits read_pixels(const std::filesystem::path& directory);

class PixelTask final : public ClassTask {
 public:
  static constexpr std::string_view kName = "pixels";

  struct Config {
    std::string data;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      see("data", data, "The directory of the images");
    }
  };

  explicit PixelTask(Config config) : config_(std::move(config)) {}

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  bool needs_data() const override { return true; }
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
