#include "longspan/learning/forward_learning.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/error.h"
#include "longspan/base/number.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/sequence.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

namespace {

// Whether the error arrives there as it was sent (Learners::kStream); the last layers too.
bool writes_stream(Role role) {
  return role != Role::kProjection && role != Role::kNorm && role != Role::kAdapter &&
         role != Role::kMechanism;
}

}  // namespace

bool ForwardLearning::through_matrix() const {
  return model_.config().head != HeadKind::kLanguage ||
         feedback_.injection == ErrorInjection::kAfterEmbedding;
}

bool ForwardLearning::in_model_space() const {
  return model_.has_encoder() && model_.has_decoder() &&
         feedback_.error_space == ErrorSpace::kModel;
}

ForwardLearning::ForwardLearning(const Model& model, Recall recall, const Feedback& feedback,
                                 RandomKey seed)
    : model_(model), recall_(recall), feedback_(feedback) {
  require(model.loss().without_backward(),
          "[pepita] the loss {} has no error that could be fed back; need the rule bp",
          model.loss().name());
  require(model.config().stages.empty(),
          "[pepita] the passes of a model with stages cannot be compared; need the rule bp");
  require(model.config().head != HeadKind::kPairs,
          "[pepita] the error of a pair belongs to neither of its sequences; need the rule bp or "
          "fa");
  require(model.config().stem == StemKind::kTokens,
          "[pepita] the passes of a model with a stem cannot be compared; need the rule bp");
  require(model.config().pair_classes == 0,
          "[pepita] the errors of two heads are of different rows; need the rule bp or fa");
  require(
      !(model.has_encoder() && model.has_decoder()) || model.config().head == HeadKind::kLanguage,
      "[pepita] the error of hidden states is of no token that an encoder could look for; need "
      "a language-model head, or the rule bp or fa");
  check_numbers("pepita", feedback);
  if (!through_matrix()) return;
  const std::size_t outputs = model.config().outputs();
  const std::size_t inputs =
      model.perceptron() != nullptr ? model.config().inputs : model.config().d_model;
  projection_ = {Dry::memory<float>(outputs * inputs).data(), outputs, inputs};
  if (model.parameters().allocated()) draw_projection(seed);
}

void ForwardLearning::draw_projection(RandomKey seed) {
  drawn_.resize(projection_.size());
  projection_.data = drawn_.data();
  // Uniform with zero mean within ±√(6/fan-in), as the authors draw it, and scaled.
  const float bound = feedback_.scale * std::sqrt(6.0F / static_cast<float>(projection_.cols));
  const RandomKey key = derive(seed, "feedback");
  for (std::size_t i = 0; i < drawn_.size(); ++i) {
    drawn_[i] = bound * (2.0F * random_uniform(key, i) - 1.0F);
  }
}

StepMemory ForwardLearning::walk(const Batch& shape, Step& step) const {
  const Dry dry;
  Arena arena = Arena::dry();
  step.arena = &arena;
  run(model_.without_data(shape), 0, 1.0F, step);
  return StepMemory::of(arena, step.kept);
}

StepMemory ForwardLearning::walk(const Batch& shape) const {
  Step step;
  return walk(shape, step);
}

Arena& ForwardLearning::book(Model& model, const Batch& shape, std::span<History> histories) {
  model.check_shape(shape, histories);
  require(
      !shape.packed || !(model_.has_encoder() && model_.has_decoder()),
      "[rule] the error of packed sequences cannot be projected into the encoder's; need padded "
      "ones, or the rule bp or fa");
  dry_step_.histories = histories;
  return model.book(kind_, shape, histories, [&] { return walk(shape, dry_step_).peak; });
}

LossSum ForwardLearning::accumulate(Model& model, const Batch& batch, RandomKey key, float scale,
                                    std::span<History> histories) {
  model_.check_batch(batch, histories, /*needs_targets=*/true);
  require(scale > 0.0F, "[pepita] the loss is weighed by {}; need more than 0", scale);
  step_.arena = &book(model, batch, histories);
  step_.histories = histories;
  return run(batch, key, scale, step_);
}

void ForwardLearning::standard_pass(const Batch& batch, RandomKey key, Matrix scores,
                                    Step& step) const {
  Arena& arena = *step.arena;
  Matrix y;
  for (const bool encoder : {true, false}) {
    if (!(encoder ? model_.has_encoder() : model_.has_decoder())) continue;
    const Place::Part part(encoder ? ModelPart::kEncoder : ModelPart::kDecoder);
    const Place::Scope place(Embedding::kMeter, Phase::kForward);
    Model::Side v = side(batch, key, encoder, step);
    v.pass.context = y;
    Outputs& kept = outputs(encoder, step);
    EmbeddingOutputs& to = kept.embedding;
    to.x = arena.matrix(v.pass.rows(), model_.config().d_model);
    to.before_norm = {};
    if (v.embedding.has_norm()) {
      to.before_norm = arena.matrix(v.pass.rows(), model_.config().d_model);
    }
    v.embedding.observe(v.pass, v.tokens, to, nullptr, nullptr, arena);
    y = v.stack.observe({v.pass, v.beside, to.x}, contrast(1.0F), kept.stack, arena);
  }
  if (model_.perceptron() != nullptr) {
    const Place::Part part(ModelPart::kEncoder);
    y = model_.perceptron()->observe(model_.perceptron_pass(batch, key), model_.features(batch),
                                     step.mlp, arena);
  }
  const Place::Part part(ModelPart::kHead);
  step.head = model_.head().transform(model_.output_pass(batch), y, /*saves=*/false, arena);
  model_.head().score(step.head, scores);
}

void ForwardLearning::first_pass(const Batch& batch, RandomKey key, Matrix scores,
                                 Step& step) const {
  Arena& arena = *step.arena;
  const Arena::Frame frame(arena);
  Matrix y;
  for (const bool encoder : {true, false}) {
    if (!(encoder ? model_.has_encoder() : model_.has_decoder())) continue;
    const Place::Part part(encoder ? ModelPart::kEncoder : ModelPart::kDecoder);
    Model::Side v = side(batch, key, encoder, step);
    v.pass.context = y;
    const Matrix x = v.embedding.embed(v.pass, v.tokens, nullptr, arena);
    y = v.stack.infer(v.pass, x, v.beside, arena);
  }
  if (model_.perceptron() != nullptr) {
    const Place::Part part(ModelPart::kEncoder);
    y = model_.perceptron()->infer(model_.perceptron_pass(batch, key), model_.features(batch),
                                   arena);
  }
  const Place::Part part(ModelPart::kHead);
  const Head::Saved last =
      model_.head().transform(model_.output_pass(batch), y, /*saves=*/false, arena);
  model_.head().score(last, scores);
}

LossSum ForwardLearning::run(const Batch& batch, RandomKey key, float scale, Step& step) const {
  Arena& arena = *step.arena;
  const Loss& loss = model_.loss();
  const Goal goal = model_.goal(batch);
  // scale·(a_L − target).
  Matrix e;
  LossSum sum;
  {
    const Place::Pass pass("standard pass");
    const Place::Scope scope(Head::kMeter, Phase::kForward);
    e = arena.matrix(model_.output_rows(batch), model_.config().outputs());
    if (keeps()) {
      standard_pass(batch, key, e, step);
    } else {
      first_pass(batch, key, e, step);
    }
    const Place::Part part(ModelPart::kHead);
    sum = loss.predict(e, goal, scale);
    if (keeps() && differs()) {
      step.outputs = arena.matrix(e.rows, e.cols);
      copy(e, step.outputs);
    }
  }
  step.kept = arena.used();
  {
    const Place::Part part(ModelPart::kError);
    const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
    loss.error(e, goal, scale);
  }
  const Place::Pass pass("modulated pass");
  if (in_model_space()) take_image(batch, e, scale, step);
  if (model_.has_encoder()) learn_side(batch, /*encoder=*/true, key, e, scale, step);
  if (model_.has_decoder()) learn_side(batch, /*encoder=*/false, key, e, scale, step);
  if (model_.perceptron() != nullptr) learn_mlp(batch, key, e, scale, step);
  learn_head(batch, e, scale, step);
  if (feedback_.learners == Learners::kStream) keep_stream_learners();
  return sum;
}

void ForwardLearning::keep_stream_learners() const {
  for (const Parameter& p : model_.parameters().all()) {
    if (!p.constant && !writes_stream(p.role)) fill({p.gradient.data(), 1, p.size()}, 0.0F);
  }
}

Perturbation ForwardLearning::injected(const Batch& batch, ConstMatrix e, float scale,
                                       Arena& arena) const {
  const ModelConfig& c = model_.config();
  Perturbation p;
  if (c.pools()) {
    const Place::Part part(ModelPart::kError);
    const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
    const Matrix shift = arena.matrix(batch.batch, c.d_model);
    gemm(e, projection_, shift, {.alpha = 1 / scale});
    p.shift = shift;
    return p;
  }
  p.error = e;
  p.scale = 1.0F / scale;
  if (through_matrix()) {
    p.through = projection_;
    return p;
  }
  p.scale *= feedback_.scale;
  return p;
}

// δ of the decoder's tokens, computed for itself because the encoder's is projected from it.
void ForwardLearning::take_image(const Batch& batch, ConstMatrix e, float scale, Step& step) const {
  const Perturbation p = injected(batch, e, scale, *step.arena);
  const Place::Part part(ModelPart::kError);
  const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
  step.image = step.arena->matrix(e.rows, model_.config().d_model);
  gemm(e,
       p.in_vocabulary() ? side(batch, 0, /*encoder=*/false, step).embedding.table()->matrix()
                         : p.through,
       step.image, {.alpha = p.scale});
}

// What reaches the encoder; `source` is its standard embedding.
Perturbation ForwardLearning::projected(const Batch& batch, ConstMatrix e, ConstMatrix source,
                                        float scale, Step& step) const {
  const ModelConfig& c = model_.config();
  const bool in_model = feedback_.error_space == ErrorSpace::kModel;
  const std::size_t rows = batch.batch * batch.source_length;
  const Place::Scope scope(kProjectionMeter, Phase::kForward);
  const Matrix out = step.arena->matrix(rows, in_model ? c.d_model : c.vocab);
  // Scores of e itself, whatever it and its image are scaled by.
  const float whole = (in_model ? feedback_.scale : scale) *
                      std::sqrt(static_cast<float>(in_model ? c.d_model : c.vocab));
  const float factor = whole != 0.0F ? 1.0F / whole : 0.0F;
  {
    // Equation 48 for every sequence: out = softmax(factor·T_enc·Eᵀ)·E.
    const Arena::Frame frame(*step.arena);
    const Matrix scores = step.arena->matrix(batch.source_length, batch.length);
    if (in_model) {
      attend_sequences(source, step.image, batch.targets, factor, scores, out);
    } else {
      attend_one_hot(batch.source, e, batch.targets, factor, scores, out);
    }
  }
  // Padding receives no error, as it sends none.
  zero_padding({batch.source_length, batch.source_lengths}, out);
  if (!in_model) return injected(batch, out, scale, *step.arena);
  Perturbation p;
  p.shift = out;
  return p;
}

void ForwardLearning::learn_side(const Batch& batch, bool encoder, RandomKey key, ConstMatrix e,
                                 float scale, Step& step) const {
  Arena& arena = *step.arena;
  const Place::Part part(encoder ? ModelPart::kEncoder : ModelPart::kDecoder);
  const Place::Scope place(Embedding::kMeter, Phase::kForward);
  Model::Side v = side(batch, key, encoder, step);
  const std::size_t d = model_.config().d_model;
  const bool both = model_.has_encoder() && model_.has_decoder();
  Pass modulated = v.pass;
  v.pass.context = step.context;
  modulated.context = step.context_err;
  const Matrix x_err = arena.matrix(v.pass.rows(), d);
  const Outputs& kept = outputs(encoder, step);
  EmbeddingOutputs standard = kept.embedding;
  if (!keeps()) standard = {arena.matrix(v.pass.rows(), d), {}};
  {
    const Arena::Frame frame(arena);
    EmbeddingOutputs to{x_err, {}};
    Norm::Saved saved;
    if (v.embedding.has_norm()) {
      to.before_norm = arena.matrix(v.pass.rows(), d);
      saved = v.embedding.save_norm(v.pass, arena);
      if (!keeps()) standard.before_norm = arena.matrix(v.pass.rows(), d);
    }
    if (!keeps()) v.embedding.observe(v.pass, v.tokens, standard, nullptr, nullptr, arena);
    Perturbation error = encoder && both ? projected(batch, e, standard.x, scale, step)
                                         : injected(batch, e, scale, arena);
    if (!encoder && in_model_space()) error.shift = step.image;
    v.embedding.observe(modulated, v.tokens, to, &error, &saved, arena);
    v.embedding.learn(modulated, v.tokens, error, standard, to, saved, scale, arena);
  }
  // The input carries an error: nothing of this pass is remembered.
  Stack::Compared err{modulated, v.beside, x_err};
  err.beside.records = false;
  if (keeps()) {
    v.stack.learn(err, kept.stack, contrast(scale), arena);
  } else {
    Stack::Compared beside{v.pass, v.beside, standard.x};
    v.stack.learn_beside(err, beside, contrast(scale), arena);
    step.standard = beside.x;
  }
  step.modulated = err.x;
  if (!keeps()) step.context = step.standard;
  step.context_err = step.modulated;
}

void ForwardLearning::learn_mlp(const Batch& batch, RandomKey key, ConstMatrix e, float scale,
                                Step& step) const {
  Arena& arena = *step.arena;
  const Place::Part part(ModelPart::kEncoder);
  const Place::Scope place(Mlp::kMeter, Phase::kForward);
  const Pass pass = model_.perceptron_pass(batch, key);
  const ConstMatrix x = model_.features(batch);
  const Matrix x_err = arena.matrix(x.rows, x.cols);
  copy(x, x_err);
  {
    const Place::Part error(ModelPart::kError);
    const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
    gemm(e, projection_, x_err, {.add = true, .alpha = 1.0F / scale});
  }
  if (keeps()) {
    step.modulated = model_.perceptron()->learn(pass, x_err, step.mlp, scale, arena);
    return;
  }
  ConstMatrix standard = x;
  step.modulated = model_.perceptron()->learn_beside(pass, x_err, standard, scale, arena);
  step.standard = standard;
}

void ForwardLearning::learn_head(const Batch& batch, Matrix e, float scale, Step& step) const {
  Arena& arena = *step.arena;
  const Place::Part part(ModelPart::kHead);
  const Place::Scope place(Head::kMeter, Phase::kForward);
  const Head& head = model_.head();
  const Loss& loss = model_.loss();
  const Goal goal = model_.goal(batch);
  const Pass out = model_.output_pass(batch);
  const Head::Saved standard =
      keeps() ? step.head : head.transform(out, step.standard, /*saves=*/false, arena);
  const Head::Saved modulated = head.transform(out, step.modulated, /*saves=*/true, arena);
  const auto outputs = [&](const Head::Saved& saved) {
    const Matrix p = arena.matrix(e.rows, e.cols);
    head.score(saved, p);
    loss.predict(p, goal, scale);
    return p;
  };
  Matrix signal = e;
  if (feedback_.last_layer == LastLayer::kModulatedError) {
    signal = outputs(modulated);
    const Place::Part error(ModelPart::kError);
    const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
    loss.error(signal, goal, scale);
  } else if (differs()) {
    signal = outputs(modulated);
    const Matrix a = keeps() ? step.outputs : outputs(standard);
    const Place::Part error(ModelPart::kError);
    const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
    difference(1.0F, a, signal, signal);
  }
  head.learn(standard, modulated, signal, scale);
}

}  // namespace longspan
