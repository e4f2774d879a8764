#include "longspan/learning/direct_feedback.h"

#include "longspan/base/error.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/draw_normal.h"

namespace longspan {

// g_l = e·B_l, or its rows spread over the tokens of their sequences.
class DirectFeedback::Signals final : public BlockSignals {
 public:
  Signals(const DirectFeedback& rule, ConstMatrix e, const Pass& pass, Matrix pooled)
      : rule_(rule), e_(e), pass_(pass), pooled_(pooled) {}

  void send(std::size_t block, Matrix g) const override {
    const Place::Part part(ModelPart::kError);
    const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
    gemm(e_, rule_.projection(block), rule_.pools() ? pooled_ : g);
    if (rule_.pools()) Head::divide(pass_, pooled_, g);
  }

 private:
  const DirectFeedback& rule_;
  ConstMatrix e_;
  const Pass& pass_;
  Matrix pooled_;  // [batch, d] where an output is of a whole sequence
};

DirectFeedback::DirectFeedback(Model& model, RandomKey seed) : model_(model) {
  const ModelConfig& c = model.config();
  require(!(model.has_encoder() && model.has_decoder()),
          "[dfa] a decoder's error has no place in the encoder's sequence; need one stack, or the "
          "rule bp or fa");
  require(c.wiring != Wiring::kReversible || model.perceptron() != nullptr,
          "[dfa] the streams of reversible layers have no output of a block; need pre or post "
          "wiring, or the rule bp or fa");
  require(model.perceptron() != nullptr || !side({}, 0, {}).stack.chooses(),
          "[dfa] experts have a loss beside the output's; need the rule bp or fa");
  require(
      c.stages.empty(),
      "[dfa] blocks of another length than the output have no place for its error; need the rule "
      "bp or fa");
  require(c.head != HeadKind::kPairs,
          "[dfa] the error of a pair belongs to neither of its sequences; need the rule bp or fa");
  require(c.pair_classes == 0,
          "[dfa] the errors of two heads are of different rows; need the rule bp or fa");
  require(!model.loss().places(),
          "[dfa] the loss {} is of places in a sequence, not of classes; need the rule bp or fa",
          model.loss().name());
  require(!model.loss().reads_states(),
          "[dfa] the loss {} compares hidden states, which have no error of the output; need the "
          "rule bp or fa",
          model.loss().name());
  const std::size_t rows = (c.layers - c.frozen_layers) * c.outputs();
  projections_ = {Dry::memory<float>(rows * c.d_model).data(), rows, c.d_model};
  if (model.parameters().allocated()) draw(derive(seed, "feedback"));
}

void DirectFeedback::draw(RandomKey key) {
  drawn_.resize(projections_.size());
  projections_.data = drawn_.data();
  const ModelConfig& c = model_.config();
  const float deviation = c.head == HeadKind::kStates
                              ? c.init_deviation
                              : model_.head().output().weight().initializer.deviation;
  draw_normal(key, deviation, drawn_);
}

Matrix DirectFeedback::projection(std::size_t block) const {
  const std::size_t outputs = model_.config().outputs();
  return projections_.slice_rows((block - model_.config().frozen_layers) * outputs, outputs);
}

StepMemory DirectFeedback::walk(const Batch& shape, Step& step) const {
  const Dry dry;
  Arena arena = Arena::dry();
  step.arena = &arena;
  run(model_.without_data(shape), 0, 1.0F, step);
  return StepMemory::of(arena, step.kept);
}

StepMemory DirectFeedback::walk(const Batch& shape) const {
  Step step;
  return walk(shape, step);
}

Arena& DirectFeedback::book(const Batch& shape, std::span<History> histories) {
  model_.check_shape(shape, histories);
  dry_step_.histories = histories;
  return model_.book(kind_, shape, histories, [&] { return walk(shape, dry_step_).peak; });
}

LossSum DirectFeedback::run(const Batch& batch, RandomKey key, float scale,
                            std::span<History> histories) {
  model_.check_batch(batch, histories, /*needs_targets=*/true);
  step_.arena = &book(batch, histories);
  step_.histories = histories;
  return run(batch, key, scale, step_);
}

Matrix DirectFeedback::forward(const Batch& batch, RandomKey key, Step& step) const {
  const Place::Part place(part());
  if (model_.perceptron() != nullptr) {
    return model_.perceptron()->forward(model_.perceptron_pass(batch, key), model_.features(batch),
                                        step.mlp, *step.arena);
  }
  const Model::Side s = side(batch, key, step.histories);
  const Matrix x = s.embedding.embed(s.pass, s.tokens, &step.embedding, *step.arena);
  return s.stack.forward(s.pass, x, step.stack, s.beside, *step.arena);
}

void DirectFeedback::backward(const Batch& batch, RandomKey key, Matrix g,
                              const BlockSignals& signals, Step& step) const {
  const Place::Part place(part());
  if (model_.perceptron() != nullptr) {
    model_.perceptron()->backward(model_.perceptron_pass(batch, key), step.mlp, g, &signals);
    return;
  }
  Model::Side s = side(batch, key, step.histories);
  s.beside.signals = &signals;
  g = s.stack.backward(s.pass, step.stack, g, s.beside, *step.arena);
  s.embedding.backward(s.pass, s.tokens, step.embedding, g, *step.arena);
}

LossSum DirectFeedback::run(const Batch& batch, RandomKey key, float scale, Step& step) const {
  Arena& arena = *step.arena;
  const Matrix x = forward(batch, key, step);
  const Pass out = model_.output_pass(batch);
  const Goal goal = model_.goal(batch);
  Head::Saved head;
  LossSum loss;
  {
    const Place::Part place(ModelPart::kHead);
    head = model_.head().forward(out, x, /*saves=*/true, arena);
    const Place::Scope scope(Head::kMeter, Phase::kForward);
    loss = model_.loss().predict(head.logits, goal, scale);
  }
  step.kept = arena.used();
  const Arena::Frame frame(arena);
  const std::size_t d = model_.config().d_model;
  Matrix g;
  Matrix pooled;
  {
    const Place::Part place(ModelPart::kHead);
    const Place::Scope scope(Head::kMeter, Phase::kBackward);
    model_.loss().error(head.logits, goal, scale);
    g = arena.matrix(out.rows(), d);
    model_.head().backward(out, head, g, arena);
    if (pools()) pooled = arena.matrix(out.batch, d);
  }
  const Signals signals(*this, head.logits, out, pooled);
  backward(batch, key, g, signals, step);
  return loss;
}

}  // namespace longspan
