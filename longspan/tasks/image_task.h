// Labelled images (images.h) as a task: of a perceptron on their pixels, or of an encoder on their
// patches. Judged by loss and accuracy on the test images, beside the share of the most common
// class.
#pragma once

#include <optional>

#include "longspan/base/number.h"
#include "longspan/tasks/image_size.h"
#include "longspan/tasks/images.h"
#include "longspan/tasks/task.h"

namespace longspan {

class ImageTask final : public Task {
 public:
  static constexpr std::string_view kName = "images";

  struct Config {
    std::string data;
    Choice<Family> model = Family::kPerceptron;
    std::size_t patch = 4;

    bool operator==(const Config&) const = default;
    template <class See>
    void visit(See see) {
      see("data", data, "The directory of images");
      see("model", model, "mlp, or encoder (of patches)");
      see("patch", patch, "Side of an encoder's patches", from_to(1, 65536));
    }
  };

  explicit ImageTask(Config config) : config_(std::move(config)) {}

  std::string_view name() const override { return kName; }
  TaskOptions options() const override;
  Criterion criterion() const override { return kByAccuracy; }
  bool needs_data() const override { return true; }
  std::string_view idle(std::string_view option) const override;
  Protocol protocol() const override { return {.options = {{"model", "encoder"}}}; }
  std::vector<Family> families() const override { return {Family::kPerceptron, Family::kEncoder}; }
  void open() override;
  TaskOptions learned() const override { return facts_of(size()); }
  void use_learned(const TaskOptions& facts) override { trained_ = image_size_from(kName, facts); }
  std::string checksum() const override;
  std::string describe() const override;
  ModelNeeds needs() const override;
  std::size_t examples(Split split) const override;
  Split held_out() const override { return Split::kTest; }
  Batch training_batch(std::uint64_t seed, std::uint64_t step, std::size_t rows,
                       BatchMemory& memory) override;
  Batch batch(Split split, const Examples& which, BatchMemory& memory) override;
  std::string_view unit() const override { return "images"; }
  std::size_t units(const Batch& batch) const override { return batch.batch; }
  Judgement judge(Split split, const Tally& tally) const override;

 private:
  Batch fill(const ImageSet& set, BatchMemory& memory) const;
  // As it was opened; not known before.
  ImageSize size() const;

  Config config_;
  ImageSize trained_;
  std::optional<ImageCorpus> corpus_;
  std::vector<std::uint32_t> indices_;  // of the batch that is filled
};

}  // namespace longspan
