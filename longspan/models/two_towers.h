// Two towers: a model of texts and one of images, whose outputs are vectors of one width; which text
// belongs to which image is told by their cosines (layers/matching.h).
//
//   S = e^s·cos(text_i, image_j)      the i-th text belongs to the i-th image
//
// Each tower is a Model with parameters of its own, and s a third set. A tower's loss is
// weighted-sum, by which it is given the gradient in its outputs.
#pragma once

#include <memory>
#include <vector>

#include "longspan/layers/matching.h"
#include "longspan/models/model.h"

namespace longspan {

struct TwoTowersConfig {
  ModelConfig text;
  ModelConfig image;
  float log_scale = 2.6592F;  // at first: ln(1/0.07)
};

class TwoTowers {
 public:
  explicit TwoTowers(const TwoTowersConfig& config);

  Model& text() { return *text_; }
  Model& image() { return *image_; }
  // s alone.
  Parameters& parameters() { return parameters_; }
  void allocate(RandomKey seed, Purpose purpose = Purpose::kTraining);

  // The views are valid until the next call.
  struct Outputs {
    ConstMatrix text;  // of unit length
    ConstMatrix image;
    ConstMatrix scores;  // S, a row for each text
  };
  Outputs outputs(const Batch& texts, const Batch& images);
  LossSum evaluate(const Batch& texts, const Batch& images);

  // Training, as of a Model; one counted target for each pair.
  LossSum forward(const Batch& texts, const Batch& images, RandomKey key, float scale);
  void backward(const Batch& texts, const Batch& images);

  // Dry: both towers and the matching.
  CostTable cost(const Batch& texts, const Batch& images, bool training) const;

 private:
  // What a tower is given in backward, and zeros before.
  Batch with_signal(const Batch& batch, std::vector<float>& signal) const;
  Matrix matrix(std::vector<float>& of_rows, std::size_t rows) const {
    return {of_rows.data(), rows, width_};
  }
  Matching::Saved compare(ConstMatrix text, ConstMatrix image);
  // One step of the matching alone.
  void run_dry(std::size_t pairs, bool training) const;

  std::unique_ptr<Model> text_;
  std::unique_ptr<Model> image_;
  std::size_t width_ = 0;
  Parameters parameters_;
  Matching matching_;

  Arena arena_;
  std::size_t pairs_ = 0;  // for which the arena is
  Matching::Saved saved_;
  bool ready_ = false;
  std::vector<float> text_signal_;
  std::vector<float> image_signal_;
};

}  // namespace longspan
