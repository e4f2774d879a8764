// Multi-head attention, self, masked or cross.
//
//   S_i = x·W_iᵀ                      the streams that the mechanism wants: q, k, v, …
//   S_i = context·W_iᵀ                k and v of cross-attention
//   C = heads of mechanism(S), side by side
//   y = C·W_Oᵀ
//
// Queries and keys may be normed, each head by itself or all side by side, before they are rotated.
//
//   dC = dy·W_O;  dS from the mechanism;  dx = Σ dS_i·W_i
//   dW_O += dyᵀ·C;  dW_i += dS_iᵀ·x
//
// Streams of a group are one product, [Q|K|V] = x·W_QKVᵀ, and heads stay in the columns of what it
// gives: nothing is transposed or copied. With g key-value heads for h query heads K and V are
// g·d_head wide, unless the mechanism states other heads and widths. A mechanism may own parameters: they are declared with the layer's, and what it
// reads of x through streams on call adds to dx. A low-rank adapter may stand beside each W_i that
// is given and beside W_O; streams on call go without.
//
// Of packed sequences the products are over all rows, and the mechanism is called once for each run
// of equal length: what it keeps lies run behind run.
//
// Rules that compare two passes take the difference of each projection, before rotary positions. A
// mechanism with parameters is one layer C = f_θ(Q, K, V) to them: θ learns from C − C_err and the
// modulated Q, K and V, contracted with ∂f/∂θ as a matrix is with its input.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longspan/attention/attention.h"
#include "longspan/layers/adapter.h"
#include "longspan/layers/branch.h"
#include "longspan/layers/linear.h"
#include "longspan/layers/norm.h"
#include "longspan/layers/positions.h"
#include "longspan/layers/runs.h"

namespace longspan {

struct MultiHeadAttentionConfig {
  std::size_t d_model = 0;
  std::size_t heads = 1;
  std::size_t kv_heads = 1;
  std::size_t head_width = 0;  // 0: d_model / heads
  bool causal = false;
  bool cross = false;
  bool pooled = false;      // cross: what it reads is what its input was pooled from
  bool bias = true;         // of the projections
  bool output_bias = true;  // of W_O
  QueryNorm query_norm = QueryNorm::kNone;
  NormKind norm = NormKind::kRms;  // that one
  Norm::Learns norm_learns = {true, true};
  float norm_epsilon = 1e-5F;
  float dropout = 0.0F;  // of the attention weights
  float deviation = 0.02F;
  float output_deviation = 0.02F;
  std::string attention = "flash";
  std::string stack = "stack";  // what shares the tables of the mechanism
  std::size_t layer = 0;
  std::size_t max_length = 0;
  std::size_t step = 1;       // as in AttentionLayout
  std::size_t lora_rank = 0;  // 0: no adapters
  float lora_alpha = 16.0F;
  std::shared_ptr<const RotaryTable> rotary;  // null: none
};

class MultiHeadAttention final : public Branch, public Contrastive {
 public:
  MultiHeadAttention(Parameters& parameters, const std::string& name,
                     const MultiHeadAttentionConfig& config);

  static constexpr std::string_view kMeter = "mha";
  static constexpr std::string_view kCrossMeter = "cross";
  std::string_view meter_name() const override {
    return config_.cross && !config_.pooled ? kCrossMeter : kMeter;
  }
  void begin_step(std::uint64_t step) override { mechanism_->begin_step(step); }
  void end_step() override { mechanism_->end_step(); }
  void check(const Pass& pass) const override;
  Kept save(const Pass& pass, Arena& arena) const override;
  void forward(const BranchForward& call) const override;
  Kept backward(const BranchBackward& call) const override;
  void accumulate(const BranchUpdate& call) const override;

  bool trained() const override;
  // Not with normed queries: what is compared are outputs of projections.
  const Contrastive* contrastive() const override { return normed_.empty() ? this : nullptr; }
  Kept save_outputs(const Pass& pass, Arena& arena) const override;
  Kept save_modulated(const Pass& pass, Arena& arena) const override;
  Kept contrast(const Pass& pass, const Kept& standard, const Kept& modulated, float scale,
                const Beside& beside, Arena& arena) const override;

  bool decodes() const override {
    return config_.cross || (config_.causal && mechanism_->abilities().decode);
  }
  void size_cache(std::size_t context, DecodeCache& cache) const override;
  bool packs() const override { return true; }
  bool reads_padding() const override { return mechanism_->abilities().reads_padding; }
  using Branch::mechanism;
  const Attention* mechanism() const override { return mechanism_.get(); }
  bool remembers() const override { return calls(Source::kHistory); }
  void set_observer(Observer observer) override { observer_ = std::move(observer); }

  const Attention& attention() const { return *mechanism_; }

 private:
  enum What : std::size_t {
    kProjected,         // the given streams of the input, side by side
    kContextProjected,  // those of the context
    kCombined,          // the heads' outputs
    kMechanism,         // what the mechanism saved; its signals
    kAdaptedIn,         // x·Aᵀ of the adapters beside the projections, if there are any
    kAdaptedContext,
    kAdaptedOut,
    kNormed,   // of normed queries and keys: x̂ [rows, columns]
    kInverse,  // and 1/σ [norms, rows]
  };
  static constexpr std::size_t kMostMore = 5;
  // The given streams: q, k and v, and those behind.
  struct Tensors {
    Heads q;
    Heads k;
    Heads v;
    std::array<Heads, kMostMore> more;
    std::array<ConstHeads, kMostMore> more_read;
    std::size_t count = 0;  // of more
  };
  // Beside the matrix of a given stream, at its columns of what its source's product gives.
  struct StreamAdapter {
    Adapter adapter;
    Source source;
    std::size_t first;
    std::size_t columns;
    std::size_t rank_first;  // its columns of x·Aᵀ
  };
  // Where the floats that one call of the mechanism saves or signals lie among those of all, each
  // where an arena would begin.
  struct Part {
    std::size_t first = 0;
    std::size_t count = 0;

    void go_on(std::size_t next);
    std::size_t end() const { return first + count; }
  };
  struct Parts {
    Part saved;
    Part signals;
  };
  // How self-attention lays out its cache: keys, values and notes, or a state.
  struct CacheLayout {
    std::size_t keys = 0;
    std::size_t values = 0;
    std::size_t notes = 0;
    std::size_t state = 0;
  };

  bool calls(Source source) const { return streams_.calls(source); }
  bool shared_qk() const { return mechanism_->abilities().shared_qk; }
  std::size_t d_head() const {
    return config_.head_width == 0 ? config_.d_model / config_.heads : config_.head_width;
  }
  const Stream& query() const { return streams_.given[0]; }
  const Stream& key() const { return streams_.given[shared_qk() ? 0 : 1]; }
  const Stream& value() const { return streams_.given[shared_qk() ? 1 : 2]; }
  std::size_t columns(Source source) const { return streams_.columns(source); }
  std::size_t adapted_columns(Source source) const;
  std::span<float> floats(const Matrix& part) const { return {part.data, part.size()}; }
  // body(run, parts) for every call of the mechanism.
  template <class Body>
  void for_each_call(const Pass& pass, const Body& body) const;
  Parts last_parts(const Pass& pass) const;
  // What is kept of a run; `own` is the part of what the mechanism keeps.
  Kept kept_of(const Run& run, const Kept& kept, const Part& own) const;
  // Of the streams as the mechanism stated them; of a pass, which is not packed.
  AttentionShape shape(std::size_t batch, std::size_t m, std::size_t n) const;
  AttentionShape shape(const Pass& pass) const;
  AttentionShape cached_shape(std::size_t batch, std::size_t capacity) const;
  CacheLayout cache_layout(std::size_t batch, std::size_t capacity) const;
  // Tokens for which such a cache has room: where not all are read, those that may be and a prompt's
  // next ones.
  std::size_t cached_tokens(std::size_t capacity) const;
  // Tokens that a cache of this capacity has room for.
  std::size_t cache_rows(std::size_t capacity) const;
  // Whether the mechanism has parameters that it is to train.
  bool mechanism_learns(const Pass& pass) const {
    return config_.lora_rank == 0 && last_parts(pass).signals.end() > 0;
  }
  void take_projections(const Pass& pass, Arena& arena, Kept& kept) const;
  void take_adapted(const Pass& pass, Arena& arena, Kept& kept) const;
  Tensors split(const Pass& pass, const Kept& kept) const;
  AttentionInputs inputs(const Pass& pass, const Tensors& t, ConstMatrix x,
                         const Beside& beside) const;
  Heads combined(const Pass& pass, Matrix c) const {
    return Heads::from_columns(c, pass.batch, streams_.output_heads);
  }
  // Columns of what the input's projections give that are normed together.
  struct Normed {
    const Norm* norm;
    std::size_t first;
    std::size_t columns;
  };
  void add_norms(Parameters& parameters, const std::string& name);
  std::size_t normed_columns() const {
    std::size_t all = 0;
    for (const Normed& n : normed_) all += n.columns;
    return all;
  }
  Norm::Saved norm_saved(std::size_t i, const Kept& kept) const;
  void norm_queries(const Kept& kept) const;
  void norm_back(const Kept& saved, const Kept& signals) const;
  void rotate(const Tensors& t, std::size_t first, bool inverse) const;
  void rotate_back(const Pass& pass, const Kept& signals) const;
  void add_adapters(Parameters& parameters, const std::string& name);
  // What an adapter does is done to the part of `all` that belongs to its stream.
  template <class Do>
  void for_each_adapter(Source source, Matrix all, Matrix low, Do act) const;
  // The given streams of a source with their adapters; `low` is what these have between A and B.
  void project(Source source, ConstMatrix x, Matrix y, Matrix low) const;
  void project_backward(Source source, Matrix dy, Matrix low, Matrix dx, bool add) const;
  void project_accumulate(Source source, ConstMatrix x, Matrix dy, Matrix low,
                          Matrix low_signal) const;
  void project_context(const BranchForward& call, Kept& kept) const;
  void attend(const BranchForward& call, const Kept& kept) const;
  void decode(const BranchForward& call, const Kept& kept, const Tensors& t) const;
  // The next `count` of its tokens, behind `used` others.
  struct Piece {
    std::size_t first;
    std::size_t count;
    std::size_t used;
  };
  void decode_piece(const BranchForward& call, const Kept& kept, Tensors t, const Piece& p) const;
  void attend_backward(const Pass& pass, const Kept& saved, Matrix dcombined, const Kept& grad,
                       Matrix dx, const Beside& beside, Arena& arena) const;

  MultiHeadAttentionConfig config_;
  Streams streams_;
  std::unique_ptr<Projections> projections_;
  std::vector<std::size_t> first_columns_;  // of each given stream, in what its source gives
  std::unique_ptr<Norm> query_norm_;
  std::unique_ptr<Norm> key_norm_;
  std::vector<Normed> normed_;
  std::optional<Linear> out_;
  std::vector<StreamAdapter> adapters_;
  std::optional<Adapter> out_adapter_;
  std::unique_ptr<Attention> mechanism_;
  Observer observer_;
};

}  // namespace longspan
