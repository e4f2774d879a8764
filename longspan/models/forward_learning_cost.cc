// What a step of learning from two forward passes takes and does, without running it.
#include "longspan/models/forward_learning.h"

namespace longspan {

// Takes what ForwardLearning takes, in its order.
class ForwardLearning::Planner {
 public:
  Planner(const Model& model, Recall recall, const Feedback& feedback, const Batch& shape)
      : model_(model), keeps_(recall == Recall::kKeep), feedback_(feedback), shape_(shape) {}

  StepMemory plan() {
    const Pass out = model_.output_pass(shape_);
    scores_ = Arena::bytes_for(model_.head_->rows(out) * model_.config_.outputs());
    plan_.at({.phase = "standard pass", .layer = Head::kMeter});
    plan_.take(scores_);
    if (keeps_) {
      standard_pass(out);
    } else {
      first_pass(out);
    }
    const bool differs = feedback_.last_layer == LastLayer::kDifference;
    if (keeps_ && differs) plan_.take(scores_);
    const std::size_t kept = plan_.used();
    if (in_model_space(model_, feedback_)) plan_.take(rows(pass_of(false)));
    if (model_.has_encoder()) learn_side(true);
    if (model_.has_decoder()) learn_side(false);
    if (model_.mlp_) {
      plan_.take(Arena::bytes_for(shape_.batch * model_.config_.inputs));
      model_.mlp_->plan_learn(pass_of(false), !keeps_, plan_);
    }
    plan_.at({.phase = "modulated pass", .layer = Head::kMeter});
    if (!keeps_) model_.head_->plan_transform(out, false, plan_);
    model_.head_->plan_transform(out, true, plan_);
    if (feedback_.last_layer != LastLayer::kStandardError) plan_.take(scores_);
    if (!keeps_ && differs) plan_.take(scores_);
    return {.kept = kept,
            .peak = plan_.peak(),
            .peak_at = plan_.peak_at(),
            .largest = plan_.largest(),
            .largest_at = plan_.largest_at()};
  }

 private:
  Pass pass_of(bool encoder) const {
    return encoder ? model_.encoder_pass(shape_, 0, true) : model_.decoder_pass(shape_, 0, true);
  }
  const Embedding& embedding(bool encoder) const {
    return encoder ? *model_.encoder_embedding_ : *model_.decoder_embedding_;
  }
  const Stack& stack(bool encoder) const { return encoder ? *model_.encoder_ : *model_.decoder_; }
  bool both() const { return model_.has_encoder() && model_.has_decoder(); }
  std::size_t rows(const Pass& pass) const {
    return Arena::bytes_for(pass.rows() * model_.config_.d_model);
  }

  template <class F>
  void each_side(const F& f) {
    if (model_.has_encoder()) f(true);
    if (model_.has_decoder()) f(false);
  }

  void standard_pass(const Pass& out) {
    each_side([&](bool encoder) {
      const Pass pass = pass_of(encoder);
      plan_.at({.phase = "standard pass", .layer = "embedding"});
      plan_.take((embedding(encoder).has_norm() ? 2 : 1) * rows(pass));
      embedding(encoder).plan_forward(pass, false, plan_);
      stack(encoder).plan_observe(pass, plan_);
    });
    if (model_.mlp_) model_.mlp_->plan_observe(pass_of(false), plan_);
    model_.head_->plan_transform(out, false, plan_);
  }

  void first_pass(const Pass& out) {
    const ArenaPlan::Frame frame(plan_);
    each_side([&](bool encoder) {
      const Pass pass = pass_of(encoder);
      plan_.take(rows(pass));
      embedding(encoder).plan_forward(pass, false, plan_);
      stack(encoder).plan_infer(pass, plan_);
    });
    if (model_.mlp_) model_.mlp_->plan_infer(pass_of(false), plan_);
    model_.head_->plan_transform(out, false, plan_);
  }

  void plan_error(bool encoder) {
    const ModelConfig& c = model_.config_;
    const bool in_model = feedback_.error_space == ErrorSpace::kModel;
    if (encoder && both()) {
      const std::size_t sources = shape_.batch * shape_.source_length;
      plan_.take(Arena::bytes_for(sources * (in_model ? c.d_model : c.vocab)));
    }
    if (c.head == "classifier") plan_.take(Arena::bytes_for(shape_.batch * c.d_model));
    if (encoder && both()) plan_.touch(Arena::bytes_for(shape_.source_length * shape_.length));
  }

  void learn_side(bool encoder) {
    const Pass pass = pass_of(encoder);
    plan_.at({.phase = "modulated pass", .layer = "embedding"});
    plan_.take((keeps_ ? 1 : 2) * rows(pass));
    {
      const ArenaPlan::Frame frame(plan_);
      const Embedding& from = embedding(encoder);
      if (from.has_norm()) {
        plan_.take((keeps_ ? 1 : 2) * rows(pass) + from.norm_bytes(pass));
      }
      if (!keeps_) from.plan_forward(pass, false, plan_);
      plan_error(encoder);
      from.plan_forward(pass, false, plan_);
      if (from.trained()) plan_.touch(rows(pass));
    }
    stack(encoder).plan_learn(pass, !keeps_, plan_);
  }

  const Model& model_;
  bool keeps_;
  const Feedback& feedback_;
  const Batch& shape_;
  std::size_t scores_ = 0;
  ArenaPlan plan_;
};

StepMemory ForwardLearning::memory(const Model& model, Recall recall, const Feedback& feedback,
                                   const Batch& shape) {
  return Planner(model, recall, feedback, shape).plan();
}

namespace {

// The shape of the error that reaches an embedding.
Perturbation shape_of_error(const ModelConfig& c, const Feedback& feedback, std::size_t rows,
                            std::size_t sequences, bool to_encoder, bool has_both) {
  Perturbation p;
  const bool in_model = feedback.error_space == ErrorSpace::kModel && has_both;
  const bool through = c.head != "lm" || feedback.injection == ErrorInjection::kAfterEmbedding;
  if (c.head == "classifier") {
    p.shift = {nullptr, sequences, c.d_model};
    return p;
  }
  if (to_encoder && in_model) {
    p.shift = {nullptr, rows, c.d_model};
    return p;
  }
  p.error = {nullptr, rows, c.outputs()};
  if (through) p.through = {nullptr, c.outputs(), c.d_model};
  if (in_model) p.shift = {nullptr, rows, c.d_model};
  return p;
}

}  // namespace

Work ForwardLearning::contrast_work(const Model& model, const Batch& batch) {
  Work work = model.head_->contrast_cost(model.output_pass(batch));
  if (model.has_encoder()) {
    const Pass pass = model.encoder_pass(batch, 0, true);
    work += model.encoder_embedding_->contrast_cost(pass) + model.encoder_->contrast_cost(pass);
  }
  if (model.has_decoder()) {
    const Pass pass = model.decoder_pass(batch, 0, true);
    work += model.decoder_embedding_->contrast_cost(pass) + model.decoder_->contrast_cost(pass);
  }
  if (model.mlp_) work += model.mlp_->contrast_cost(model.output_pass(batch));
  return work;
}

CostTable ForwardLearning::cost(const Model& model, Recall recall, const Feedback& feedback,
                                const Batch& batch) {
  const ModelConfig& c = model.config_;
  const std::uint64_t passes = recall == Recall::kKeep ? 2 : 3;
  CostTable table = model.cost(batch, /*training=*/true);
  const Pass out = model.output_pass(batch);
  const std::uint64_t outputs = std::uint64_t{model.head_->rows(out)} * c.outputs();
  const std::uint64_t counted =
      batch.targets.empty() ? model.head_->rows(out) : count_targets(batch.targets);
  const bool standard = feedback.last_layer == LastLayer::kStandardError;
  const bool differs = feedback.last_layer == LastLayer::kDifference;
  for (auto& [name, layer] : table) {
    // The last layer runs once by the standard error; by the modulated error the second standard
    // pass has no use for it.
    const std::uint64_t most = standard ? 1 : differs ? passes : 2;
    layer.forward = (name == Head::kMeter ? most : passes) * layer.forward;
    layer.backward = {};
  }
  Work& overhead = table[std::string(kOverheadMeter)].update;
  overhead +=
      flops(Kind::kSoftmax, counted * (feedback.last_layer == LastLayer::kModulatedError ? 2 : 1));
  if (differs) overhead += flops(Kind::kAdd, outputs);
  overhead += contrast_work(model, batch);
  const bool has_both = model.has_encoder() && model.has_decoder();
  const auto add_error = [&](const Embedding& embedding, const Pass& pass, bool to_encoder) {
    const Perturbation error =
        shape_of_error(c, feedback, pass.rows(), pass.batch, to_encoder, has_both);
    overhead += embedding.perturb_cost(pass, error) + embedding.dense_cost(pass, error);
    if (c.head == "classifier") overhead += maccs(outputs * c.d_model);
  };
  if (model.has_encoder()) {
    add_error(*model.encoder_embedding_, model.encoder_pass(batch, 0, true), has_both);
  }
  if (model.has_decoder()) {
    add_error(*model.decoder_embedding_, model.decoder_pass(batch, 0, true), false);
  }
  if (model.mlp_) {
    overhead += maccs(outputs * c.inputs);
  }
  if (!has_both) return table;
  const std::uint64_t pairs = std::uint64_t{batch.batch} * batch.source_length * batch.length;
  const bool in_model = in_model_space(model, feedback);
  if (in_model) overhead += maccs(outputs * c.d_model);
  Work& projection = table[std::string(kProjectionMeter)].forward;
  projection += maccs(pairs * (in_model ? 2 * c.d_model : c.vocab));
  projection += flops(Kind::kSoftmax, 5 * pairs) + flops(Kind::kAdd, pairs);
  return table;
}

}  // namespace longspan
