#include "longspan/learning/trainer.h"

#include <cmath>

#include "longspan/base/error.h"
#include "longspan/base/number.h"

namespace longspan {

Trainer::Trainer(Model& model, const TrainConfig& config)
    : model_(model),
      config_(config),
      rule_(make_rule(config.rule, model, config.feedback, config.seed)),
      optimizer_(config.optimizer, model.parameters()) {
  check_numbers("train", config);
  model.parameters().require_allocated("train");  // the rule draws, and steps write
  model.parameters().require_trainable("train");
  check(config.schedule);
}

StepReport Trainer::step(std::span<const Batch> micro_batches, std::span<History> histories,
                         const std::function<void()>& proven, const std::function<bool()>& stops) {
  require(histories.empty() || micro_batches.size() == 1,
          "[train] histories of earlier segments beside {} batches; need one batch",
          micro_batches.size());
  StepReport report;
  std::size_t counted = 0;
  for (const Batch& batch : micro_batches) {
    counted += model_.loss().count(batch);
    report.tokens += batch.rows();
  }
  require(counted > 0, "[train] every target of the batch is ignored; need at least one");
  const float scale = 1.0F / static_cast<float>(counted);
  const auto gradients = model_.parameters().gradients();
  Optimizer::clear(gradients);

  model_.begin_step(steps());
  const RandomKey key = derive(derive(config_.seed, "dropout"), steps());
  double sum = 0.0;
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    if (i > 0 && stops && stops()) {
      report.step = steps();
      report.stopped = true;
      return report;
    }
    sum += rule_->accumulate(micro_batches[i], derive(key, i), scale, histories).loss;
  }
  report.loss = sum / static_cast<double>(counted);
  report.learning_rate = learning_rate(config_.schedule, steps());
  report.gradient_norm = Optimizer::norm(gradients);
  report.finite = std::isfinite(report.loss) && std::isfinite(report.gradient_norm);
  if (report.finite) {
    if (proven) proven();
    const bool clips = config_.clip > 0.0F && report.gradient_norm > config_.clip;
    const double shrink = clips ? config_.clip / report.gradient_norm : 1.0;
    optimizer_.step(report.learning_rate, static_cast<float>(shrink));
    model_.end_step();
  }
  report.step = steps();
  return report;
}

}  // namespace longspan
