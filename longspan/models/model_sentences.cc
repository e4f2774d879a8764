// The second head, of whole sequences, and its loss.
#include "longspan/models/model.h"

namespace longspan {

bool Model::judges_sentences(const Batch& batch) const {
  if (!sentence_head_) return false;
  return !batch.sentence_targets.empty() || (Dry::on() && batch.targets.empty());
}

Goal Model::sentence_goal(const Batch& batch) const {
  const Batch own{.batch = batch.batch, .length = 1, .targets = batch.sentence_targets};
  return sentence_loss_.goal(own, batch.batch, config_.pair_classes);
}

// Both losses are means over their own targets; beside a sum over the first head's this one counts
// as often.
float Model::sentence_scale(const Batch& batch) const {
  const std::size_t own = sentence_goal(batch).counted;
  if (own == 0) return 0.0F;
  return static_cast<float>(goal(batch).counted) / static_cast<float>(own);
}

double Model::predict_sentences(const Batch& batch, ConstMatrix x, float scale, Step& step) const {
  SentenceHead::Saved& saved = step.tape.sentence_head;
  saved = sentence_head_->forward(output_pass(batch), x, /*saves=*/true, step.arena);
  const Place::Scope scope(SentenceHead::kMeter, Phase::kForward);
  const float own = sentence_scale(batch);
  const LossSum sum = sentence_loss_.predict(saved.logits, sentence_goal(batch), own * scale);
  return static_cast<double>(own) * sum.loss;
}

void Model::sentence_signal(const Batch& batch, float scale, Matrix g, Step& step) const {
  const SentenceHead::Saved& saved = step.tape.sentence_head;
  {
    const Place::Scope scope(SentenceHead::kMeter, Phase::kBackward);
    sentence_loss_.error(saved.logits, sentence_goal(batch), sentence_scale(batch) * scale);
  }
  sentence_head_->backward(output_pass(batch), saved, g, step.arena);
}

LossSum Model::measure(const Outputs& outputs, const Batch& batch) const {
  LossSum sum = measure(outputs.logits, batch);
  if (!judges_sentences(batch)) return sum;
  const Place::Part part(ModelPart::kHead);
  const Place::Scope scope(SentenceHead::kMeter, Phase::kForward);
  sum.loss += static_cast<double>(sentence_scale(batch)) *
              sentence_loss_.measure(outputs.sentences, sentence_goal(batch)).loss;
  return sum;
}

}  // namespace longspan
