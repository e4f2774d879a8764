#include "longspan/models/forward_learning.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/error.h"
#include "longspan/kernels/gemm.h"
#include "longspan/kernels/vector.h"

namespace longspan {

bool ForwardLearning::through_matrix(const Model& model, const Feedback& feedback) {
  return model.config_.head != "lm" || feedback.injection == ErrorInjection::kAfterEmbedding;
}

bool ForwardLearning::in_model_space(const Model& model, const Feedback& feedback) {
  return model.has_encoder() && model.has_decoder() && feedback.error_space == ErrorSpace::kModel;
}

std::size_t ForwardLearning::projection_floats(const Model& model, const Feedback& feedback) {
  if (!through_matrix(model, feedback)) return 0;
  const std::size_t inputs = model.mlp_ ? model.config_.inputs : model.config_.d_model;
  return model.config_.outputs() * inputs;
}

ForwardLearning::ForwardLearning(Model& model, Recall recall, const Feedback& feedback,
                                 RandomKey seed)
    : model_(model), recall_(recall), feedback_(feedback) {
  require(std::isfinite(feedback.scale), "[pepita] the feedback's scale is {}; need a number",
          feedback.scale);
  projection_.resize(projection_floats(model, feedback));
  if (projection_.empty()) return;
  projection_rows_ = model.config_.outputs();
  projection_cols_ = projection_.size() / projection_rows_;
  // Uniform with zero mean within ±√(6/fan-in), as the authors draw it, and scaled.
  const float bound = feedback.scale * std::sqrt(6.0F / static_cast<float>(projection_cols_));
  const RandomKey key = derive(seed, "feedback");
  for (std::size_t i = 0; i < projection_.size(); ++i) {
    projection_[i] = bound * (2.0F * random_uniform(key, i) - 1.0F);
  }
}

ForwardLearning::Views ForwardLearning::views(const Batch& batch, RandomKey key, bool encoder) {
  Model& m = model_;
  Pass pass = encoder ? m.encoder_pass(batch, key, true) : m.decoder_pass(batch, key, true);
  pass.compares_sums = feedback_.branch_signal == BranchSignal::kSum;
  if (encoder) {
    return {&*m.encoder_embedding_, &*m.encoder_, m.encoder_tokens(batch), pass, &encoder_};
  }
  return {&*m.decoder_embedding_, &*m.decoder_, m.decoder_tokens(batch), pass, &decoder_};
}

void ForwardLearning::prepare(const Batch& shape) {
  model_.check_shape(shape);
  model_.book(shape, /*training=*/true, memory(model_, recall_, feedback_, shape).peak);
}

void ForwardLearning::standard_pass(const Batch& batch, RandomKey key, Matrix scores) {
  Arena& arena = model_.arena_;
  Matrix y;
  for (const bool encoder : {true, false}) {
    if (!(encoder ? model_.has_encoder() : model_.has_decoder())) continue;
    Views v = views(batch, key, encoder);
    v.pass.memory = y;
    EmbeddingOutputs& to = v.kept->embedding;
    to.x = arena.matrix(v.pass.rows(), model_.config_.d_model);
    to.before_norm = {};
    if (v.embedding->has_norm()) {
      to.before_norm = arena.matrix(v.pass.rows(), model_.config_.d_model);
    }
    v.embedding->observe(v.pass, v.tokens, to, nullptr, nullptr, arena);
    y = v.stack->observe(v.pass, to.x, v.kept->stack, arena);
  }
  if (model_.mlp_) {
    y = model_.mlp_->observe(model_.decoder_pass(batch, key, true), model_.features(batch), mlp_,
                             arena);
  }
  head_ = model_.head_->transform(model_.output_pass(batch), y, /*saves=*/false, arena);
  model_.head_->score(head_, scores);
}

void ForwardLearning::first_pass(const Batch& batch, RandomKey key, Matrix scores) {
  Arena& arena = model_.arena_;
  const Arena::Frame frame(arena);
  Matrix y;
  for (const bool encoder : {true, false}) {
    if (!(encoder ? model_.has_encoder() : model_.has_decoder())) continue;
    Views v = views(batch, key, encoder);
    v.pass.memory = y;
    const Matrix x = arena.matrix(v.pass.rows(), model_.config_.d_model);
    v.embedding->forward(v.pass, v.tokens, x, nullptr, arena);
    y = v.stack->infer(v.pass, x, {}, arena);
  }
  if (model_.mlp_) {
    y = model_.mlp_->infer(model_.decoder_pass(batch, key, true), model_.features(batch), arena);
  }
  const Head::Saved last =
      model_.head_->transform(model_.output_pass(batch), y, /*saves=*/false, arena);
  model_.head_->score(last, scores);
}

CrossEntropy ForwardLearning::accumulate(const Batch& batch, RandomKey key, float scale) {
  model_.check_batch(batch, /*needs_targets=*/true);
  require(scale > 0.0F, "[pepita] the loss is weighed by {}; need more than 0", scale);
  model_.book(batch, /*training=*/true, memory(model_, recall_, feedback_, batch).peak);
  Arena& arena = model_.arena_;
  const std::size_t rows = model_.head_->rows(model_.output_pass(batch));
  // scale·(a_L − target).
  const Matrix e = arena.matrix(rows, model_.config_.outputs());
  if (keeps()) {
    standard_pass(batch, key, e);
  } else {
    first_pass(batch, key, e);
  }
  CrossEntropy loss;
  {
    const Meter::Scope scope(Head::kMeter, Phase::kForward);
    loss = cross_entropy_forward(e, batch.targets, scale);
  }
  if (keeps() && differs()) {
    probabilities_ = arena.matrix(e.rows, e.cols);
    copy(e, probabilities_);
  }
  {
    const Meter::Scope scope(kOverheadMeter, Phase::kUpdate);
    cross_entropy_backward(e, batch.targets, scale);
  }
  if (in_model_space(model_, feedback_)) take_image(batch, e, scale);
  if (model_.has_encoder()) learn_side(batch, /*encoder=*/true, key, e, scale);
  if (model_.has_decoder()) learn_side(batch, /*encoder=*/false, key, e, scale);
  if (model_.mlp_) learn_mlp(batch, key, e, scale);
  learn_head(batch, e, scale);
  if (feedback_.learners == Learners::kStream) keep_stream_learners();
  return loss;
}

void ForwardLearning::keep_stream_learners() {
  for (Parameter& p : model_.parameters().all()) {
    const bool stream = p.name.find("embedding.") != std::string::npos ||
                        p.name.find(".out.") != std::string::npos || p.name.starts_with("head.") ||
                        p.name.starts_with("mlp.");
    if (!p.constant && !stream) std::ranges::fill(p.gradient, 0.0F);
  }
}

Perturbation ForwardLearning::injected(const Batch& batch, ConstMatrix e, float scale,
                                       Arena& arena) const {
  const ModelConfig& c = model_.config_;
  Perturbation p;
  if (c.head == "classifier") {
    const Meter::Scope scope(kOverheadMeter, Phase::kUpdate);
    const Matrix shift = arena.matrix(batch.batch, c.d_model);
    gemm(e, {projection_.data(), projection_rows_, projection_cols_}, shift, {.alpha = 1 / scale});
    p.shift = shift;
    return p;
  }
  p.error = e;
  p.scale = 1.0F / scale;
  if (through_matrix(model_, feedback_)) {
    p.through = {projection_.data(), projection_rows_, projection_cols_};
    return p;
  }
  p.scale *= feedback_.scale;
  return p;
}

// δ of the decoder's tokens, computed for itself because the encoder's is projected from it.
void ForwardLearning::take_image(const Batch& batch, ConstMatrix e, float scale) {
  Arena& arena = model_.arena_;
  const Perturbation p = injected(batch, e, scale, arena);
  image_ = arena.matrix(e.rows, model_.config_.d_model);
  const Meter::Scope scope(kOverheadMeter, Phase::kUpdate);
  gemm(e, p.in_vocabulary() ? model_.decoder_embedding_->table().matrix() : p.through, image_,
       {.alpha = p.scale});
}

// Equation 48 for sequence b: out = softmax(factor·T_enc·Eᵀ)·E.
void ForwardLearning::attend(const Batch& batch, std::size_t b, ConstMatrix e, ConstMatrix source,
                             ConstMatrix error, float factor, Matrix out, Arena& arena) const {
  const Arena::Frame frame(arena);
  const std::size_t n = batch.source_length;
  const std::size_t m = batch.length;
  const Matrix p = arena.matrix(n, m);
  if (source.data == nullptr) {
    // The queries are one-hot: a column of e each.
    for (std::size_t i = 0; i < n; ++i) {
      const auto token = static_cast<std::size_t>(batch.source[b * n + i]);
      for (std::size_t j = 0; j < m; ++j) p.row_data(i)[j] = e.row_data(b * m + j)[token];
    }
  } else {
    gemm(source.slice_rows(b * n, n), error.slice_rows(b * m, m), p, {.transpose_b = true});
  }
  longspan::scale(factor, p);
  softmax_forward(p);
  gemm(p, error.slice_rows(b * m, m), out.slice_rows(b * n, n));
}

// What reaches the encoder; `source` is its standard embedding.
Perturbation ForwardLearning::projected(const Batch& batch, ConstMatrix e, ConstMatrix source,
                                        float scale, Arena& arena) const {
  const ModelConfig& c = model_.config_;
  const bool in_model = feedback_.error_space == ErrorSpace::kModel;
  const std::size_t rows = batch.batch * batch.source_length;
  const Matrix out = arena.matrix(rows, in_model ? c.d_model : c.vocab);
  // Scores of e itself, whatever it and its image are scaled by.
  const float whole = (in_model ? feedback_.scale : scale) *
                      std::sqrt(static_cast<float>(in_model ? c.d_model : c.vocab));
  const float factor = whole != 0.0F ? 1.0F / whole : 0.0F;
  const Meter::Scope scope(kProjectionMeter, Phase::kForward);
  for (std::size_t b = 0; b < batch.batch; ++b) {
    attend(batch, b, e, in_model ? source : ConstMatrix{}, in_model ? image_ : e, factor, out,
           arena);
  }
  Perturbation p;
  if (in_model) {
    p.shift = out;
  } else {
    p = injected(batch, out, scale, arena);
  }
  return p;
}

void ForwardLearning::learn_side(const Batch& batch, bool encoder, RandomKey key, ConstMatrix e,
                                 float scale) {
  Arena& arena = model_.arena_;
  Views v = views(batch, key, encoder);
  const std::size_t d = model_.config_.d_model;
  const bool both = model_.has_encoder() && model_.has_decoder();
  Pass modulated = v.pass;
  modulated.modulated = true;
  v.pass.memory = memory_;
  modulated.memory = memory_err_;
  const Matrix x_err = arena.matrix(v.pass.rows(), d);
  EmbeddingOutputs standard = v.kept->embedding;
  if (!keeps()) standard = {arena.matrix(v.pass.rows(), d), {}};
  {
    const Arena::Frame frame(arena);
    EmbeddingOutputs to{x_err, {}};
    Norm::Saved saved;
    if (v.embedding->has_norm()) {
      to.before_norm = arena.matrix(v.pass.rows(), d);
      saved = v.embedding->save_norm(v.pass, arena);
      if (!keeps()) standard.before_norm = arena.matrix(v.pass.rows(), d);
    }
    if (!keeps()) v.embedding->observe(v.pass, v.tokens, standard, nullptr, nullptr, arena);
    Perturbation error = encoder && both ? projected(batch, e, standard.x, scale, arena)
                                         : injected(batch, e, scale, arena);
    if (!encoder && in_model_space(model_, feedback_)) error.shift = image_;
    v.embedding->observe(modulated, v.tokens, to, &error, &saved, arena);
    v.embedding->learn(modulated, v.tokens, error, standard, to, saved, scale, arena);
  }
  if (keeps()) {
    modulated_ = v.stack->learn(modulated, x_err, v.kept->stack, scale, arena);
  } else {
    Stack::Beside beside{v.pass, standard.x};
    modulated_ = v.stack->learn_beside(modulated, x_err, beside, scale, arena);
    standard_ = beside.x;
  }
  if (!keeps()) memory_ = standard_;
  memory_err_ = modulated_;
}

void ForwardLearning::learn_mlp(const Batch& batch, RandomKey key, ConstMatrix e, float scale) {
  Arena& arena = model_.arena_;
  Pass pass = model_.decoder_pass(batch, key, true);
  pass.modulated = true;
  const ConstMatrix x = model_.features(batch);
  const Matrix x_err = arena.matrix(x.rows, x.cols);
  copy(x, x_err);
  {
    const Meter::Scope scope(kOverheadMeter, Phase::kUpdate);
    gemm(e, projection(), x_err, {.accumulate = true, .alpha = 1.0F / scale});
  }
  if (keeps()) {
    modulated_ = model_.mlp_->learn(pass, x_err, mlp_, scale, arena);
    return;
  }
  ConstMatrix standard = x;
  modulated_ = model_.mlp_->learn_beside(pass, x_err, standard, scale, arena);
  standard_ = standard;
}

void ForwardLearning::learn_head(const Batch& batch, Matrix e, float scale) {
  Arena& arena = model_.arena_;
  const Head& head = *model_.head_;
  const Pass out = model_.output_pass(batch);
  const Head::Saved standard =
      keeps() ? head_ : head.transform(out, standard_, /*saves=*/false, arena);
  const Head::Saved modulated = head.transform(out, modulated_, /*saves=*/true, arena);
  const auto probabilities = [&](const Head::Saved& saved) {
    const Matrix p = arena.matrix(e.rows, e.cols);
    head.score(saved, p);
    const Meter::Scope scope(Head::kMeter, Phase::kForward);
    cross_entropy_forward(p, batch.targets, scale);
    return p;
  };
  Matrix signal = e;
  if (feedback_.last_layer == LastLayer::kModulatedError) {
    signal = probabilities(modulated);
    const Meter::Scope scope(kOverheadMeter, Phase::kUpdate);
    cross_entropy_backward(signal, batch.targets, scale);
  } else if (differs()) {
    signal = probabilities(modulated);
    const Matrix a = keeps() ? probabilities_ : probabilities(standard);
    const Meter::Scope scope(kOverheadMeter, Phase::kUpdate);
    difference(1.0F, a, signal, signal);
  }
  head.learn(standard, modulated, signal, scale);
}

}  // namespace longspan
