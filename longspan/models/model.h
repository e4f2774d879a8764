// A transformer: encoder-only, decoder-only or encoder–decoder, with a language-model or classifier
// head; or a multi-layer perceptron with a classifier head.
//
//   encoder           logits = head(stack(embed(tokens)))
//   decoder           the same with causal self-attention
//   mlp               logits = head(mlp(features))
//   encoder–decoder   memory = encoder(embed(source)); logits = head(decoder(embed(tokens),
//   memory))
//
// Building one takes no memory for weights; allocate() does. The memory of a step is booked from
// its plan before the first step of that shape, and steps of the same shape allocate nothing.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "longspan/base/parameter.h"
#include "longspan/kernels/softmax.h"
#include "longspan/layers/embedding.h"
#include "longspan/layers/head.h"
#include "longspan/models/batch.h"
#include "longspan/models/config.h"
#include "longspan/models/mlp.h"
#include "longspan/models/stack.h"

namespace longspan {

// What a step executes, by the part of the model that does it.
struct ModelCost {
  CostTable encoder;
  CostTable decoder;
  CostTable head;
};

// What a training step takes from the arena, in bytes.
struct StepMemory {
  std::size_t kept = 0;  // when forward has ended
  std::size_t peak = 0;
  ArenaPlan::Moment peak_at;  // when the peak is first reached
  std::size_t largest = 0;    // the most that is taken at once
  ArenaPlan::Moment largest_at;
};

// kCount: parameters, cost and memory are asked for, and nothing is run. Tables of sines are left
// out, so that a model of any length is built at once.
enum class ModelUse : std::uint8_t { kRun, kCount };

class Model {
 public:
  explicit Model(const ModelConfig& config, ModelUse use = ModelUse::kRun);

  const ModelConfig& config() const { return config_; }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }

  // The self-attention of a layer, of the encoder if there is one: to give a mechanism what
  // somebody else drew.
  Attention& mechanism(std::size_t layer) {
    return (encoder_ ? *encoder_ : *decoder_).self_attention(layer).mechanism();
  }

  // Shows the inputs of that layer's mechanism, before every forward.
  void observe(std::size_t layer, MultiHeadAttention::Observer observer) {
    (encoder_ ? *encoder_ : *decoder_).self_attention(layer).set_observer(std::move(observer));
  }

  // Weights and gradients; the weights are drawn from `seed`.
  void allocate(RandomKey seed);

  // Before step `step` of training: mechanisms with random features draw them again when due.
  void begin_step(std::uint64_t step);

  // Checks and books a training step of this shape (tokens may be empty) before there is any data.
  void prepare_training(const Batch& shape);

  // Training. forward keeps what backward needs and turns the logits into the gradient of
  // scale·Σ loss; `key` seeds dropout (unused without). backward adds to the gradients.
  CrossEntropy forward(const Batch& batch, RandomKey key, float scale);
  void backward(const Batch& batch, float scale);

  // Memories of earlier segments, one for each layer, for Batch::histories; advance() each after
  // the segment is done with.
  std::vector<History> make_histories(std::size_t batch, std::size_t capacity) const;

  // Inference. The view is valid until the next call.
  ConstMatrix logits(const Batch& batch);
  CrossEntropy evaluate(const Batch& batch);
  // Decoder only: logits of the last of the new tokens, which follow those in the caches (one cache
  // per layer). `batch.tokens` holds the new tokens only.
  ConstMatrix decode(const Batch& batch, std::span<KeyValueCache> caches);
  // Bytes of keys, values and notes for `capacity` tokens, and caches laid out in memory of that
  // size.
  std::size_t cache_bytes(std::size_t batch, std::size_t capacity) const;
  std::vector<KeyValueCache> make_caches(std::size_t batch, std::size_t capacity,
                                         Arena& arena) const;

  // What a step will take from the arena, in bytes, and what it will do, layer by layer.
  StepMemory training_memory(const Batch& shape) const;
  std::size_t training_bytes(const Batch& shape) const { return training_memory(shape).peak; }
  std::size_t inference_bytes(const Batch& shape) const;
  CostTable cost(const Batch& batch, bool training) const;
  ModelCost cost_by_part(const Batch& batch, bool training) const;

  // The arena of the last step.
  const Arena& arena() const { return arena_; }

 private:
  void freeze();
  void check_shape(const Batch& batch) const;
  void check_batch(const Batch& batch, bool needs_targets) const;
  friend class ForwardLearning;
  bool has_encoder() const { return config_.family.starts_with("encoder"); }
  bool has_decoder() const { return config_.family.ends_with("decoder"); }
  std::size_t output_width() const {
    return mlp_ ? config_.d_model : (has_decoder() ? *decoder_ : *encoder_).output_width();
  }
  ConstMatrix features(const Batch& batch) const {
    return {batch.features.data(), batch.batch, config_.inputs};
  }
  Pass encoder_pass(const Batch& batch, RandomKey key, bool training) const;
  Pass decoder_pass(const Batch& batch, RandomKey key, bool training) const;
  Pass output_pass(const Batch& batch) const;
  static void remember(const Batch& batch, Pass& pass);
  TokenInput encoder_tokens(const Batch& batch) const;
  TokenInput decoder_tokens(const Batch& batch) const;
  // Makes sure that a step of this batch has its memory.
  void book(const Batch& batch, bool training, std::size_t bytes);
  // The last hidden states, nothing kept.
  Matrix infer(const Batch& batch, std::span<KeyValueCache> caches);
  std::size_t planned_inference(const Batch& shape, KeyValueCache* cache) const;

  ModelConfig config_;
  ModelUse use_;
  std::unique_ptr<Parameters> parameters_;  // layers point into it
  std::optional<Embedding> encoder_embedding_;
  std::optional<Stack> encoder_;
  std::optional<Embedding> decoder_embedding_;
  std::optional<Stack> decoder_;
  std::optional<Mlp> mlp_;
  std::optional<Head> head_;

  Arena arena_;
  struct Tape {
    Norm::Saved encoder_embedding;
    Stack::Tape encoder;
    Matrix memory;
    Norm::Saved decoder_embedding;
    Stack::Tape decoder;
    Mlp::Tape mlp;
    Head::Saved head;
    RandomKey key = 0;
    std::size_t batch = 0;
    std::size_t length = 0;
    bool ready = false;  // forward ran and nothing has used its memory since
  } tape_;
};

}  // namespace longspan
