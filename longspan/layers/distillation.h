// A student's loss beside its teacher (kernels/rows/distillation.h): cross-entropy with the targets,
// the divergence from the teacher's softened distribution and, with a weight c above 0, the cosine of
// the last hidden states with the teacher's.
//
//   L = (1 − w)·(−log softmax(s)[y]) + w·T²·KL(softmax(t/T) ‖ softmax(s/T)) + c·(1 − cos(h, g))
//
// The batch brings the teacher's scores t and states g. A model is judged by the cross-entropy alone,
// for which no teacher is needed.
#pragma once

#include "longspan/base/distillation_config.h"
#include "longspan/layers/cross_entropy.h"

namespace longspan {

class DistillationLoss final : public Loss {
 public:
  static constexpr std::string_view kName = DistillationConfig::kLoss;
  using Config = DistillationConfig;

  explicit DistillationLoss(const Config& config = {}) : config_(config) {}

  std::string_view name() const override { return kName; }
  bool without_backward() const override { return false; }
  bool classifies() const override { return true; }
  bool reads_states() const override { return config_.hidden_weight > 0.0F; }
  std::size_t count(const Batch& batch) const override { return hard_.count(batch); }
  void check(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  Goal goal(const Batch& batch, std::size_t rows, std::size_t outputs) const override;
  LossSum measure(ConstMatrix scores, const Goal& goal) const override {
    return hard_.measure(scores, goal);
  }
  // The gradient itself, which nothing is left to be done to.
  LossSum predict(Matrix scores, const Goal& goal, float scale) const override;
  void error(Matrix /*outputs*/, const Goal& /*goal*/, float /*scale*/) const override {}
  double states(ConstMatrix h, const Goal& goal) const override;
  void states_error(ConstMatrix h, const Goal& goal, float scale, Matrix dh) const override;

 private:
  Config config_;
  CrossEntropyLoss hard_;
};

}  // namespace longspan
