// Learning from two forward passes: PEPITA (Dellaferrera & Kreiman, 2022) and MEMPEPITA.
//
//   standard pass    a_0 = x,            a_l = σ_l(W_l·a_{l−1}),         e = a_L − target
//   modulated pass   a_0^err = x + F·e,  a_l^err = σ_l(W_l·a_{l−1}^err)
//   gradient         ∇W_l = (a_l − a_l^err)·(a_{l−1}^err)ᵀ
//
// PEPITA keeps every a_l of the standard pass. MEMPEPITA keeps e alone and computes a_l a second
// time beside a_l^err, layer by layer, so that its memory does not grow with depth; the arithmetic
// and its order are the same, and so are the gradients, bit for bit.
//
// The layers of a transformer, x being one-hot tokens:
//
//   embedding        x + ε·e where outputs are tokens too, else E[x] + F·e (a classifier's e goes
//                    to every token); its gradient is (x + ε·e)ᵀ·(a − a_err)
//   projections      each with its own output; before rotary positions
//   mechanism        where it has parameters θ: C = f_θ(Q, K, V), (∂f/∂θ)ᵀ·(C − C_err)
//   W_O, FFN₂        the branch's output behind dropout, before the residual addition
//   FFN₁             behind its activation; gated: before
//   norms            γ from (y − y_err)⊙x̂_err, β from y − y_err
//   head             its transform as any layer; the last layer as Feedback::last_layer says
//   encoder          of an encoder–decoder: attention carries the decoder's error to it,
//                    softmax(T_enc·Eᵀ/√w)·E with E = e [M, v] or E = e·W_emb [M, d]; tokens
//                    without a target send none and padding of the source receives none
//
// Both passes share dropout masks and random features.
#pragma once

#include <string_view>
#include <vector>

#include "longspan/learning/feedback.h"
#include "longspan/models/model.h"

namespace longspan {

inline constexpr std::string_view kProjectionMeter = "error projection";

class ForwardLearning {
 public:
  // F is drawn from `seed`, if the model has memory; without, the steps can be walked.
  ForwardLearning(const Model& model, Recall recall, const Feedback& feedback, RandomKey seed);

  // Adds to the gradients of the model, which is the one above; returns the loss of the standard
  // pass. `scale` weighs every sum over rows, as in Model::forward.
  LossSum accumulate(Model& model, const Batch& batch, RandomKey key, float scale,
                     std::span<History> histories = {});
  // The same step dry; `kept` is what the standard pass leaves. A listener hears of the model's
  // layers, of kOverheadMeter under update and of kProjectionMeter under forward.
  StepMemory walk(const Batch& shape) const;
  // Checks and books a step of this shape before there is any data.
  void prepare(Model& model, const Batch& shape, std::span<History> histories = {}) {
    book(model, shape, histories);
  }

  // Whether it learns from a packed batch what it learns from the padded one: the error is spread
  // over padding too, from which matrices learn.
  bool packs() const { return false; }

  // F as [outputs, inputs or d_model]; empty where the error needs none.
  Matrix projection() { return projection_; }
  // Of its floats.
  std::size_t projection_floats() const { return projection_.size(); }

 private:
  // What the standard pass leaves of a stack and its embedding.
  struct Outputs {
    EmbeddingOutputs embedding;
    Stack::Outputs stack;
  };
  // What a step owns.
  struct Step {
    Arena* arena = nullptr;
    std::span<History> histories = {};  // beside the batch
    Outputs encoder = {};
    Outputs decoder = {};
    Mlp::Outputs mlp = {};
    Head::Saved head = {};
    Matrix outputs = {};        // a_L, where the last layer learns from its difference
    Matrix image = {};          // the error in the space of the embedding
    ConstMatrix standard = {};  // outputs of the last stack in either pass
    ConstMatrix modulated = {};
    ConstMatrix context = {};  // the encoder's for the decoder, in either pass
    ConstMatrix context_err = {};
    std::size_t kept = 0;  // bytes of the arena after the standard pass
  };
  Arena& book(Model& model, const Batch& shape, std::span<History> histories);
  bool through_matrix() const;
  // Whether the error reaches an encoder in the space of its embedding.
  bool in_model_space() const;
  void draw_projection(RandomKey seed);
  StepMemory walk(const Batch& shape, Step& step) const;
  LossSum run(const Batch& batch, RandomKey key, float scale, Step& step) const;
  void take_image(const Batch& batch, ConstMatrix e, float scale, Step& step) const;
  Model::Side side(const Batch& batch, RandomKey key, bool encoder, const Step& step) const {
    return encoder ? model_.encoder_side(batch, key, step.histories)
                   : model_.decoder_side(batch, key, step.histories);
  }
  static Outputs& outputs(bool encoder, Step& step) {
    return encoder ? step.encoder : step.decoder;
  }
  void standard_pass(const Batch& batch, RandomKey key, Matrix scores, Step& step) const;
  void first_pass(const Batch& batch, RandomKey key, Matrix scores, Step& step) const;
  Perturbation injected(const Batch& batch, ConstMatrix e, float scale, Arena& arena) const;
  Perturbation projected(const Batch& batch, ConstMatrix e, ConstMatrix source, float scale,
                         Step& step) const;
  void learn_side(const Batch& batch, bool encoder, RandomKey key, ConstMatrix e, float scale,
                  Step& step) const;
  void learn_mlp(const Batch& batch, RandomKey key, ConstMatrix e, float scale, Step& step) const;
  void learn_head(const Batch& batch, Matrix e, float scale, Step& step) const;
  // Drops what the others would have learnt.
  void keep_stream_learners() const;
  Contrast contrast(float scale) const {
    return {scale, feedback_.branch_signal == BranchSignal::kSum};
  }
  bool keeps() const { return recall_ == Recall::kKeep; }
  bool differs() const { return feedback_.last_layer == LastLayer::kDifference; }

  const Model& model_;
  Recall recall_;
  Feedback feedback_;
  std::vector<float> drawn_;  // empty while the model has no memory
  Matrix projection_;
  StepKind kind_ = StepKind::of_rule("pepita");
  // Their lists are kept from step to step.
  Step step_;
  Step dry_step_;
};

}  // namespace longspan
