// A model with random weights and tokens, ready to be timed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "longspan/learning/trainer.h"
#include "longspan/models/model.h"

namespace longspan {

struct RunShape {
  std::size_t batch = 1;
  std::size_t length = 0;
  std::size_t source_length = 0;  // encoder–decoder
};

class ModelRun {
 public:
  // Only to infer, its weights are packed.
  ModelRun(const ModelConfig& config, const RunShape& shape, Purpose purpose = Purpose::kTraining);

  const Batch& batch() const { return batch_; }
  Model& model() { return model_; }
  const TrainConfig& train_config() const { return train_; }

  void forward() { model_.evaluate(batch_); }
  // Forward and backward alone.
  void gradients();
  void step();

 private:
  Model model_;
  TrainConfig train_;
  std::unique_ptr<Trainer> trainer_;  // from the first step on
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> targets_;
  std::vector<std::int32_t> source_;
  Batch batch_;
};

}  // namespace longspan
