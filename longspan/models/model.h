// A transformer: encoder-only, decoder-only or encoder–decoder, with a language-model or classifier
// head; or a multi-layer perceptron with a classifier head.
//
//   encoder           logits = head(stack(embed(tokens))), or of an image or sound (layers/stem.h)
//   decoder           the same with causal self-attention
//   mlp               logits = head(mlp(features))
//   encoder–decoder   context = encoder(embed(source));
//                     logits = head(decoder(embed(tokens), context))
//
// Building one takes no memory for weights; allocate() does. The memory of a step is booked from a
// dry run before the first step of that shape, and steps of the same shape allocate nothing.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longspan/base/batch.h"
#include "longspan/base/cost.h"
#include "longspan/base/parameter.h"
#include "longspan/layers/cross_entropy.h"
#include "longspan/layers/embedding.h"
#include "longspan/layers/head.h"
#include "longspan/layers/loss.h"
#include "longspan/layers/sentence_head.h"
#include "longspan/models/booking.h"
#include "longspan/models/config.h"
#include "longspan/models/mlp.h"
#include "longspan/models/stack.h"

namespace longspan {

// What a step executes, by the part of the model that does it.
struct ModelCost {
  CostTable encoder;
  CostTable decoder;
  CostTable head;

  CostTable whole() const;
};

// What a training step takes from the arena, in bytes.
struct StepMemory {
  std::size_t kept = 0;  // when forward has ended
  std::size_t peak = 0;
  Place peak_at;            // where the peak is first reached
  std::size_t largest = 0;  // the most that is taken at once
  Place largest_at;

  // Of a step that has run in it.
  static StepMemory of(const Arena& arena, std::size_t kept) {
    return {kept, arena.peak(), arena.peak_at(), arena.largest(), arena.largest_at()};
  }
};

class Model {
 public:
  explicit Model(const ModelConfig& config);

  const ModelConfig& config() const { return config_; }
  Parameters& parameters() { return *parameters_; }
  const Parameters& parameters() const { return *parameters_; }

  // What mixes the tokens of a layer, of the encoder if there is one, and its mechanism where that
  // is attention: to give it what somebody else drew.
  const Branch& mixer(std::size_t layer) const;
  Branch& mixer(std::size_t layer);
  Attention& mechanism(std::size_t layer);

  // Weights, and gradients unless it is only to infer; the weights are drawn from `seed`.
  void allocate(RandomKey seed, Purpose purpose = Purpose::kTraining);

  // For inference: what products read gets the layout of the micro-kernels, in the memory that it
  // has. Nothing can be trained or saved then, and weights read one by one, until unpack().
  // Before allocate() it is only said, for walks.
  void pack();
  void unpack();

  // Before step `step` of training: mechanisms with random features draw them again when due.
  void begin_step(std::uint64_t step);
  // After it, if it moved the weights: mechanisms take what they gathered into their buffers.
  void end_step();

  // What its outputs are compared by.
  const Loss& loss() const { return *loss_; }

  // Beside a batch may come what the layers of the (only or decoder's) stack remember of earlier
  // segments: `histories`, one for each of them.

  // Checks and books a training step of this shape (tokens may be empty) before there is any data.
  void prepare_training(const Batch& shape, std::span<History> histories = {});

  // Training. forward keeps what backward needs and turns the logits into the gradient of
  // scale·Σ loss; `key` seeds dropout (unused without). backward adds to the gradients.
  LossSum forward(const Batch& batch, RandomKey key, float scale,
                  std::span<History> histories = {});
  void backward(const Batch& batch, float scale);
  // What the loss made of the scores in the last forward, until the next call.
  ConstMatrix scores() const { return step_.tape.head.logits; }

  // Histories of earlier segments, one for each layer; advance() each after the segment is done
  // with.
  std::vector<History> make_histories(std::size_t batch, std::size_t capacity) const;

  // Inference. The views are valid until the next call.
  struct Outputs {
    ConstMatrix states;  // the last hidden ones
    ConstMatrix logits;
    ConstMatrix sentences;  // of the second head, where there is one
  };
  Outputs outputs(const Batch& batch, std::span<History> histories = {});
  ConstMatrix logits(const Batch& batch, std::span<History> histories = {}) {
    return outputs(batch, histories).logits;
  }
  LossSum evaluate(const Batch& batch, std::span<History> histories = {});
  // The first layer that gives numbers which are not finite, "mha of block 2"; empty: none
  // does.
  std::string first_not_finite(const Batch& batch);
  // Of what logits gave for the batch.
  LossSum loss_of(ConstMatrix scores, const Batch& batch) const {
    loss_->check(batch, output_rows(batch), config_.outputs());
    return measure(scores, batch);
  }
  // Logits of the last of the new tokens, which follow those in the caches of the decoder's
  // branches. `batch.tokens` holds the new tokens only; the source of an encoder–decoder is read
  // with the first of them.
  ConstMatrix decode(const Batch& batch, std::span<DecodeCache> caches);
  // Whether it takes packed batches (base/batch.h), and why not; empty: it does.
  bool packs() const { return needs_padding().empty(); }
  std::string needs_padding() const;
  // Whether what it gives of a sequence, or its loss, depends on how far that is padded.
  bool reads_padding() const;
  // Whether all branches can.
  bool decodes() const {
    return decoder_ && config_.head == HeadKind::kLanguage && decoder_->decodes();
  }
  // Bytes of the caches for `capacity` tokens, which attend to `source` tokens of an encoder, and
  // caches laid out in memory of that size.
  std::size_t cache_bytes(std::size_t batch, std::size_t capacity, std::size_t source = 0) const;
  std::vector<DecodeCache> make_caches(std::size_t batch, std::size_t capacity, Arena& arena,
                                       std::size_t source = 0) const;

  // Floats that decoding keeps of a sequence: for each of its tokens, and however long it is.
  struct CacheSize {
    std::size_t per_token = 0;
    std::size_t fixed = 0;
  };
  CacheSize cache_size() const;

  // The branches of both stacks, the encoder's first.
  std::vector<const Branch*> branches() const;

  // Dry: the same steps without memory or arithmetic. `shape` may lack tokens and targets; every
  // target counts then. A listener hears the calls.
  StepMemory walk_training(const Batch& shape, std::span<History> histories = {}) const;
  // Returns the bytes that the arena would need.
  std::size_t walk_inference(const Batch& shape, std::span<History> histories = {}) const;
  // The same without a loss.
  std::size_t walk_outputs(const Batch& shape) const;
  // One decoding step of the new tokens in `shape`, behind `used` others in caches of `capacity`.
  std::size_t walk_decode(const Batch& shape, std::size_t used, std::size_t capacity) const;

  // What comes of such walks.
  std::size_t training_bytes(const Batch& shape, std::span<History> histories = {}) const {
    return walk_training(shape, histories).peak;
  }
  std::size_t inference_bytes(const Batch& shape, std::span<History> histories = {}) const {
    return walk_inference(shape, histories);
  }
  CostTable cost(const Batch& batch, bool training, std::span<History> histories = {}) const {
    return cost_by_part(batch, training, histories).whole();
  }
  ModelCost cost_by_part(const Batch& batch, bool training,
                         std::span<History> histories = {}) const;

  // Parameters that every token is multiplied by or looked up in: all, but experts it does not go to.
  std::size_t used_parameters() const;
  // Rows that each expert of each branch with experts computed in the last step, one
  // behind the other, as Batch::loads takes them.
  std::vector<std::int32_t> loads() const;

  // The arena of the last step.
  const Arena& arena() const { return step_.arena; }

  // What rules of learning run that have steps of their own: the parts, and what each is given of a
  // batch in training.
  bool has_encoder() const {
    return (config_.family == Family::kEncoder || config_.family == Family::kEncoderDecoder);
  }
  bool has_decoder() const {
    return (config_.family == Family::kDecoder || config_.family == Family::kEncoderDecoder);
  }
  // A stack and its embedding. Experts have no routing here.
  struct Side {
    const Embedding& embedding;
    const Stack& stack;
    TokenInput tokens;
    Pass pass;
    StackBeside beside;
  };
  Side encoder_side(const Batch& batch, RandomKey key, std::span<History> histories) const;
  Side decoder_side(const Batch& batch, RandomKey key, std::span<History> histories) const;
  const Mlp* perceptron() const { return mlp_ ? &*mlp_ : nullptr; }
  Pass perceptron_pass(const Batch& batch, RandomKey key) const {
    return decoder_pass(batch, key, /*training=*/true);
  }
  ConstMatrix features(const Batch& batch) const {
    return {batch.features.data(), batch.batch, config_.inputs};
  }
  const Head& head() const { return *head_; }
  Pass output_pass(const Batch& batch) const;
  std::size_t output_rows(const Batch& batch) const { return head_->rows(output_pass(batch)); }
  Goal goal(const Batch& batch) const {
    return loss_->goal(batch, output_rows(batch), config_.outputs());
  }

  // Such a step is checked, given its memory, and run in the arena; or dry in another one, on a
  // batch with addresses for what it lacks.
  void check_shape(const Batch& batch, std::span<History> histories) const;
  // That its rows can be counted, whatever they hold.
  void check_rows(const Batch& batch) const;
  void check_batch(const Batch& batch, std::span<History> histories, bool needs_targets,
                   bool reads_source = true) const;
  Batch without_data(const Batch& shape) const;
  // `walk` runs the step dry and says how many bytes it takes, unless the last step was of the same
  // kind and shape. The arena is empty then, and what an earlier step left in it is lost.
  template <class Walk>
  Arena& book(const StepKind& kind, const Batch& batch, std::span<History> histories,
              const Walk& walk) {
    return book(kind, batch, past(histories), walk);
  }

 private:
  // What forward leaves for backward.
  struct Tape {
    EmbeddingSaved encoder_embedding;
    Stack::Tape encoder;
    Matrix context;
    EmbeddingSaved decoder_embedding;
    Stack::Tape decoder;
    Mlp::Tape mlp;
    Head::Saved head;
    SentenceHead::Saved sentence_head;
    std::span<History> histories;  // beside the batch
    RandomKey key = 0;
    std::size_t batch = 0;
    std::size_t rows = 0;
    bool ready = false;  // forward ran and nothing has used its memory since
  };
  // What a step owns; a dry one changes nothing else.
  struct Step {
    Arena arena;
    Tape tape;
    std::vector<DecodeCache> caches;  // of a dry decoding step
    // Of the branches of either stack, where any has experts.
    std::vector<Routing> encoder_routings;
    std::vector<Routing> decoder_routings;
    RoutingLoss encoder_loss;  // that all of a stack have together
    RoutingLoss decoder_loss;
    StageRun stages;         // of the encoder
    Watch* watch = nullptr;  // of a pass that keeps nothing
  };

  void check_layer(std::size_t layer) const;
  void check_packed(const Batch& batch, std::span<History> histories) const;
  void make_head(Parameter* tied);
  void freeze();
  std::size_t output_width() const {
    return mlp_ ? config_.d_model : (has_decoder() ? *decoder_ : *encoder_).output_width();
  }
  Pass encoder_pass(const Batch& batch, RandomKey key, bool training,
                    std::span<History> histories = {}) const;
  Pass decoder_pass(const Batch& batch, RandomKey key, bool training,
                    std::span<History> histories = {}) const;
  static void remember(std::span<History> histories, Pass& pass);
  static std::size_t past(std::span<History> histories) {
    return histories.empty() ? 0 : histories.front().length();
  }
  // With the routings of a step, if it is one that has them.
  StackBeside encoder_beside(std::span<History> histories, Step* step = nullptr) const;
  StackBeside decoder_beside(std::span<History> histories, Step* step = nullptr) const;
  // Before a step; `weight` is that of the auxiliary losses. Their sum afterwards.
  void begin_routing(const Batch& batch, float weight, Step& step) const;
  static double auxiliary_loss(const Step& step);
  // What the encoder reads in place of tokens; null: it reads tokens.
  const Stem* stem() const { return encoder_embedding_ ? encoder_embedding_->stem() : nullptr; }
  TokenInput encoder_tokens(const Batch& batch) const;
  TokenInput decoder_tokens(const Batch& batch) const;

  // The tape says what is beside the batch.
  LossSum run_forward(const Batch& batch, RandomKey key, float scale, Step& step) const;
  void run_backward(const Batch& batch, float scale, Step& step) const;
  Outputs run_outputs(const Batch& batch, std::span<History> histories, Step& step) const;
  LossSum measure(ConstMatrix scores, const Batch& batch) const;
  // With what the second head adds.
  LossSum measure(const Outputs& outputs, const Batch& batch) const;
  // Of the second head: whether the batch has targets for it; those; and its loss, which as a mean
  // counts as often as there are targets of the first.
  bool judges_sentences(const Batch& batch) const;
  Goal sentence_goal(const Batch& batch) const;
  float sentence_scale(const Batch& batch) const;
  double predict_sentences(const Batch& batch, ConstMatrix x, float scale, Step& step) const;
  void sentence_signal(const Batch& batch, float scale, Matrix g, Step& step) const;
  ConstMatrix run_decode(const Batch& batch, std::span<DecodeCache> caches, Step& step) const;
  // The last hidden states, nothing kept.
  Matrix infer(const Batch& batch, std::span<History> histories, std::span<DecodeCache> caches,
               Step& step) const;

  StepMemory walk_training(const Batch& shape, std::span<History> histories, Step& step) const;
  std::size_t walk_inference(const Batch& shape, std::span<History> histories, Step& step) const;
  std::size_t walk_decode(const Batch& shape, std::size_t used, std::size_t capacity,
                          Step& step) const;

  template <class Walk>
  Arena& book(const StepKind& kind, const Batch& batch, std::size_t past, const Walk& walk) {
    if (!booking_.holds(kind, batch, past)) {
      booking_.forget();
      take_memory(batch, kind.training, unheard(walk));
      booking_.remember(kind, batch, past);
    }
    step_.arena.clear();
    step_.arena.reset_peak();
    step_.tape.ready = false;
    return step_.arena;
  }
  // Nobody hears of the walk that books.
  template <class Walk>
  static std::size_t unheard(const Walk& walk) {
    const Listener::Mute mute;
    return walk();
  }
  void take_memory(const Batch& batch, bool training, std::size_t bytes);

  ModelConfig config_;
  std::unique_ptr<Parameters> parameters_;            // layers point into it
  std::vector<std::shared_ptr<RotaryTable>> rotary_;  // of all stacks
  std::optional<Embedding> encoder_embedding_;
  std::optional<Stack> encoder_;
  std::optional<Embedding> decoder_embedding_;
  std::optional<Stack> decoder_;
  std::optional<Mlp> mlp_;
  std::optional<Head> head_;
  std::optional<SentenceHead> sentence_head_;
  CrossEntropyLoss sentence_loss_;
  std::unique_ptr<Loss> loss_;

  Step step_;
  Step dry_step_;  // its lists are kept, so that booking allocates nothing
  Booking booking_;
};

}  // namespace longspan
