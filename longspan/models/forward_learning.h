// Learning from two forward passes: PEPITA (Dellaferrera & Kreiman, 2022) and MEMPEPITA.
//
//   standard pass    a_0 = x,         a_l = σ_l(W_l·a_{l−1}),          e = a_L − target
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
//   to
//                    every token); its gradient is (x + ε·e)ᵀ·(a − a_err)
//   projections      each with its own output; before rotary positions
//   mechanism        where it has parameters θ: C = f_θ(Q, K, V), (∂f/∂θ)ᵀ·(C − C_err)
//   W_O, FFN₂        the branch's output behind dropout, before the residual addition
//   FFN₁             behind its activation; gated: before
//   norms            γ from (y − y_err)⊙x̂_err, β from y − y_err
//   head             its transform as any layer; the last layer as Feedback::last_layer says
//   encoder          of an encoder–decoder: attention carries the decoder's error to it,
//                    softmax(T_enc·Eᵀ/√w)·E with E = e [M, v] or E = e·W_emb [M, d]
//
// Both passes share dropout masks and random features.
#pragma once

#include <vector>

#include "longspan/models/feedback.h"
#include "longspan/models/model.h"

namespace longspan {

inline constexpr std::string_view kProjectionMeter = "error projection";

class ForwardLearning {
 public:
  // F is drawn from `seed`.
  ForwardLearning(Model& model, Recall recall, const Feedback& feedback, RandomKey seed);

  // Adds to the gradients of the model; returns the loss of the standard pass. `scale` weighs every
  // sum over rows, as in Model::forward.
  CrossEntropy accumulate(const Batch& batch, RandomKey key, float scale);
  // Checks and books a step of this shape before there is any data.
  void prepare(const Batch& shape);

  // F as [outputs, inputs or d_model]; empty where the error needs none.
  Matrix projection() { return {projection_.data(), projection_rows_, projection_cols_}; }

  // Of a step, without running one. `kept` is what the standard pass leaves.
  static StepMemory memory(const Model& model, Recall recall, const Feedback& feedback,
                           const Batch& shape);
  static std::size_t projection_floats(const Model& model, const Feedback& feedback);
  // By the meter's names: forward has all passes, backward is zero; beside the model's layers
  // kOverheadMeter (under update) and kProjectionMeter (under forward).
  static Work contrast_work(const Model& model, const Batch& batch);  // a − a_err alone
  static CostTable cost(const Model& model, Recall recall, const Feedback& feedback,
                        const Batch& batch);

 private:
  class Planner;
  // One stack of the model with what its standard pass left.
  struct Side {
    EmbeddingOutputs embedding;
    Stack::Outputs stack;
  };
  struct Views {
    const Embedding* embedding;
    const Stack* stack;
    TokenInput tokens;
    Pass pass;
    Side* kept;
  };
  static bool through_matrix(const Model& model, const Feedback& feedback);
  // Whether the error reaches an encoder in the space of its embedding.
  static bool in_model_space(const Model& model, const Feedback& feedback);
  void take_image(const Batch& batch, ConstMatrix e, float scale);
  Views views(const Batch& batch, RandomKey key, bool encoder);
  void standard_pass(const Batch& batch, RandomKey key, Matrix scores);
  void first_pass(const Batch& batch, RandomKey key, Matrix scores);
  Perturbation injected(const Batch& batch, ConstMatrix e, float scale, Arena& arena) const;
  Perturbation projected(const Batch& batch, ConstMatrix e, ConstMatrix source, float scale,
                         Arena& arena) const;
  void attend(const Batch& batch, std::size_t b, ConstMatrix e, ConstMatrix source,
              ConstMatrix error, float factor, Matrix out, Arena& arena) const;
  void learn_side(const Batch& batch, bool encoder, RandomKey key, ConstMatrix e, float scale);
  void learn_mlp(const Batch& batch, RandomKey key, ConstMatrix e, float scale);
  void learn_head(const Batch& batch, Matrix e, float scale);
  // Drops what the others would have learnt.
  void keep_stream_learners();
  bool keeps() const { return recall_ == Recall::kKeep; }
  bool differs() const { return feedback_.last_layer == LastLayer::kDifference; }

  Model& model_;
  Recall recall_;
  Feedback feedback_;
  std::vector<float> projection_;
  std::size_t projection_rows_ = 0;
  std::size_t projection_cols_ = 0;
  // Of the step that runs.
  Side encoder_;
  Side decoder_;
  Mlp::Outputs mlp_;
  Head::Saved head_;
  Matrix probabilities_;  // a_L, where the last layer learns from its difference
  Matrix image_;          // the error in the space of the embedding
  ConstMatrix standard_;  // outputs of the last stack in either pass
  ConstMatrix modulated_;
  ConstMatrix memory_;  // the encoder's for the decoder, in either pass
  ConstMatrix memory_err_;
};

}  // namespace longspan
