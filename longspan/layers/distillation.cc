#include "longspan/layers/distillation.h"

#include "longspan/base/dry.h"
#include "longspan/base/error.h"
#include "longspan/kernels/rows/distillation.h"

namespace longspan {

namespace {

Targets counted_targets(const Goal& goal) { return {goal.batch.targets, goal.counted}; }

ConstMatrix teacher_states(ConstMatrix h, const Goal& goal) {
  const std::span<const float> given = goal.batch.teacher_states;
  const bool dry = Dry::on() && given.empty();
  require(dry || given.size() == h.size(),
          "[distillation] {} numbers of a teacher's hidden states; need {} for each of {} rows",
          given.size(), h.cols, h.rows);
  return {dry ? Dry::memory<const float>(h.size()).data() : given.data(), h.rows, h.cols};
}

}  // namespace

void DistillationLoss::check(const Batch& batch, std::size_t rows, std::size_t outputs) const {
  hard_.check(batch, rows, outputs);
  require(batch.teacher_scores.empty() || batch.teacher_scores.size() == rows * outputs,
          "[distillation] {} scores of a teacher; need {} for each of {} rows",
          batch.teacher_scores.size(), outputs, rows);
}

Goal DistillationLoss::goal(const Batch& batch, std::size_t rows, std::size_t outputs) const {
  Goal goal = hard_.goal(batch, rows, outputs);
  if (Dry::on() && batch.teacher_scores.empty()) {
    goal.batch.teacher_scores = Dry::memory<const float>(rows * outputs);
  }
  return goal;
}

LossSum DistillationLoss::predict(Matrix scores, const Goal& goal, float scale) const {
  require(goal.batch.teacher_scores.size() == scores.size(),
          "[distillation] a batch without a teacher's scores; need the teacher's of every row");
  const ConstMatrix teacher{goal.batch.teacher_scores.data(), scores.rows, scores.cols};
  const CrossEntropy sum =
      distil(scores, teacher, counted_targets(goal),
             {.temperature = config_.temperature, .weight = config_.teacher_weight}, scale);
  return {sum.loss, sum.counted, sum.correct};
}

double DistillationLoss::states(ConstMatrix h, const Goal& goal) const {
  if (!reads_states()) return 0.0;
  return config_.hidden_weight * cosine_distance(h, teacher_states(h, goal), counted_targets(goal));
}

void DistillationLoss::states_error(ConstMatrix h, const Goal& goal, float scale, Matrix dh) const {
  if (!reads_states()) return;
  cosine_distance_backward(h, teacher_states(h, goal), counted_targets(goal),
                           config_.hidden_weight * scale, dh);
}

}  // namespace longspan
