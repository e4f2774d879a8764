// Batches of labelled images through a model: what train and eval share.
#pragma once

#include <cstdint>
#include <vector>

#include "longspan/models/model.h"
#include "longspan/tasks/images.h"

namespace longspan::cli {

// Memory for one batch of images, as the model wants them: features, or tokens of patches.
class ImageBuffer {
 public:
  ImageBuffer(const ModelConfig& config, std::size_t rows, std::size_t patch);
  // The images of `indices`, at most `rows` of them.
  Batch fill(const ImageSet& set, std::span<const std::uint32_t> indices);

 private:
  bool perceptron_;
  std::size_t length_;
  std::size_t patch_;
  std::vector<float> features_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> targets_;
};

struct ImageQuality {
  std::size_t images = 0;
  double loss = 0.0;      // mean
  double accuracy = 0.0;  //
};
// Over all images of the set.
ImageQuality evaluate_images(Model& model, const ImageSet& set, std::size_t batch,
                             std::size_t patch);

}  // namespace longspan::cli
