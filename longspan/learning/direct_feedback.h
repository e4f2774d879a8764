// Direct feedback alignment (Nøkland, 2016, arXiv:1609.01596; of transformers Launay et al., 2020,
// arXiv:2006.12878): the output error goes straight to every block.
//
//   e   = ∂L/∂logits           [rows, outputs]
//   g_l = N'(e·B_l)            the signal at the output of block l;  B_l [outputs, d], fixed, random
//
// N' is the derivative of the final norm, where there is one: it takes out of the signal what would
// only scale the stream, without which pre-norm models hardly learn. Inside a block the signal goes
// back exactly, and from the first one into the embedding; blocks send none to each other. The head
// and the final norm's parameters have the exact gradient, which ends there. Each layer of a
// perceptron is a block. The error of a classifier is one of a whole sequence: e·B_l is spread over
// its real tokens as a mean would spread it.
//
// Costs what backpropagation does, without the hidden layers' backward of a perceptron, and for each
// block rows·outputs·d MACCs under kOverheadMeter; N' once for each block instead of once.
#pragma once

#include <vector>

#include "longspan/learning/rule.h"

namespace longspan {

class DirectFeedback final : public Rule {
 public:
  // B is drawn from `seed` with the deviation of the last layer's first weights; without memory for
  // the weights the steps can be walked only. Throws Error for models that it cannot train.
  DirectFeedback(Model& model, RandomKey seed);

  void prepare(const Batch& shape) override { book(shape, {}); }
  StepMemory walk(const Batch& shape) const override;
  std::size_t own_floats() const override { return projections_.size(); }

  // B of a block that is trained, to give it what somebody else drew.
  Matrix projection(std::size_t block) const;

 private:
  // What a step owns.
  struct Step {
    Arena* arena = nullptr;
    std::span<History> histories = {};  // beside the batch
    EmbeddingSaved embedding = {};
    Stack::Tape stack = {};
    Mlp::Tape mlp = {};
    std::size_t kept = 0;  // bytes of the arena after forward
  };
  class Signals;
  LossSum run(const Batch& batch, RandomKey key, float scale,
              std::span<History> histories) override;
  Arena& book(const Batch& shape, std::span<History> histories);
  StepMemory walk(const Batch& shape, Step& step) const;
  LossSum run(const Batch& batch, RandomKey key, float scale, Step& step) const;
  void draw(RandomKey key);
  Model::Side side(const Batch& batch, RandomKey key, std::span<History> histories) const {
    return model_.has_decoder() ? model_.decoder_side(batch, key, histories)
                                : model_.encoder_side(batch, key, histories);
  }
  ModelPart part() const {
    return model_.has_decoder() ? ModelPart::kDecoder : ModelPart::kEncoder;
  }
  Matrix forward(const Batch& batch, RandomKey key, Step& step) const;
  void backward(const Batch& batch, RandomKey key, Matrix g, const BlockSignals& signals,
                Step& step) const;
  // Whether an output is of a whole sequence.
  bool pools() const { return model_.config().pools() && model_.perceptron() == nullptr; }

  Model& model_;
  std::vector<float> drawn_;  // empty while the model has no memory
  Matrix projections_;        // of the trained blocks, one under the other
  StepKind kind_ = StepKind::of_rule("dfa");
  // Their lists are kept from step to step.
  Step step_;
  Step dry_step_;
};

}  // namespace longspan
