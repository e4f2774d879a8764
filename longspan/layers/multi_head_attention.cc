#include "longspan/layers/multi_head_attention.h"

#include <algorithm>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/kernels/rows/sequence.h"

namespace longspan {

namespace {

const MultiHeadAttentionConfig& checked(const MultiHeadAttentionConfig& c) {
  require(c.heads > 0 && c.d_model % c.heads == 0,
          "[attention] width {} does not divide into {} heads; need a multiple", c.d_model,
          c.heads);
  require(c.kv_heads > 0 && c.heads % c.kv_heads == 0,
          "[attention] {} heads cannot share {} key-value heads; need a divisor", c.heads,
          c.kv_heads);
  return c;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(Parameters& parameters, const std::string& name,
                                       const MultiHeadAttentionConfig& config)
    : config_(checked(config)),
      mechanism_(make_attention(config.attention)),
      needs_(mechanism_->needs()),
      in_(parameters, name + (config.cross ? ".q" : ".qkv"), config.d_model, projected_width(),
          config.bias, config.deviation),
      out_(parameters, name + ".out", config.d_model, config.d_model, config.bias,
           config.output_deviation) {
  if (config.cross) {
    kv_.emplace(parameters, name + ".kv", config.d_model, 2 * kv_width(), config.bias,
                config.deviation);
  }
  if (config.lora_rank > 0) {
    in_adapter_.emplace(parameters, name + (config.cross ? ".q" : ".qkv"), config.d_model,
                        projected_width(), config.lora_rank, config.lora_alpha);
    out_adapter_.emplace(parameters, name + ".out", config.d_model, config.d_model,
                         config.lora_rank, config.lora_alpha);
  }
  require(!config.cross || !(needs_.shared_qk || needs_.input || needs_.history),
          "[{}] attends within one sequence; cross-attention needs another mechanism",
          mechanism_->name());
  require(!shared_qk() || config.heads == config.kv_heads,
          "[{}] its keys are its queries, so {} heads cannot share {} key heads",
          mechanism_->name(), config.heads, config.kv_heads);
  mechanism_->declare({.parameters = parameters,
                       .name = name,
                       .stack = config.stack,
                       .layer = config.layer,
                       .d_model = config.d_model,
                       .heads = config.heads,
                       .kv_heads = config.kv_heads,
                       .d_head = d_head(),
                       .max_length = config.max_length,
                       .deviation = config.deviation,
                       .projections = config.cross ? nullptr : &in_.weight(),
                       .projections_bias = config.cross ? nullptr : in_.bias()});
}

std::size_t MultiHeadAttention::projected_width() const {
  if (config_.cross) return config_.d_model;
  return config_.d_model + (shared_qk() ? 1 : 2) * kv_width();
}

AttentionShape MultiHeadAttention::shape(const Pass& pass) const {
  return {.batch = pass.batch,
          .heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .m = pass.length,
          .n = config_.cross ? pass.memory_length : pass.length,
          .d = d_head(),
          .e = d_head(),
          .causal = config_.causal,
          .key_lengths = config_.cross ? pass.memory_lengths : pass.lengths,
          .dropout = pass.training && config_.dropout > 0.0F,
          .history_length = needs_.history ? pass.history_length : 0,
          .globals = pass.globals};
}

AttentionCost MultiHeadAttention::mechanism_cost(const Pass& pass) const {
  return mechanism_->cost(shape(pass));
}

AttentionShape MultiHeadAttention::cached_shape(std::size_t batch, std::size_t capacity) const {
  return {.batch = batch,
          .heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .m = 1,
          .n = capacity,
          .d = d_head(),
          .e = d_head(),
          .causal = config_.causal};
}

std::size_t MultiHeadAttention::state_floats(std::size_t batch) const {
  return mechanism_->state_floats(cached_shape(batch, 1));
}

std::size_t MultiHeadAttention::note_floats(std::size_t batch, std::size_t capacity) const {
  return mechanism_->note_floats(cached_shape(batch, capacity));
}

BranchSignals MultiHeadAttention::take_projections(const Pass& pass, Arena& arena) const {
  BranchSignals p;
  p.projected = arena.matrix(pass.rows(), projected_width());
  if (config_.cross) p.memory_projected = arena.matrix(pass.memory_rows(), 2 * kv_width());
  return p;
}

Matrix MultiHeadAttention::take_adapted(const Pass& pass, Arena& arena) const {
  return arena.matrix(pass.rows(), config_.lora_rank);
}

BranchSaved MultiHeadAttention::save(const Pass& pass, Arena& arena) const {
  const BranchSignals p = take_projections(pass, arena);
  BranchSaved saved;
  saved.projected = p.projected;
  saved.memory_projected = p.memory_projected;
  saved.combined = arena.matrix(pass.rows(), config_.d_model);
  saved.mechanism = arena.take(mechanism_cost(pass).saved);
  saved.adapted_in = take_adapted(pass, arena);
  saved.adapted_out = take_adapted(pass, arena);
  return saved;
}

MultiHeadAttention::Tensors MultiHeadAttention::split(const Pass& pass, Matrix projected,
                                                      Matrix memory_projected) const {
  if (shared_qk()) {
    const Heads q =
        Heads::from_columns(projected.slice_cols(0, config_.d_model), pass.batch, config_.heads);
    return {q, q,
            Heads::from_columns(projected.slice_cols(config_.d_model, kv_width()), pass.batch,
                                config_.kv_heads)};
  }
  const Matrix kv =
      config_.cross ? memory_projected : projected.slice_cols(config_.d_model, 2 * kv_width());
  return {Heads::from_columns(projected.slice_cols(0, config_.d_model), pass.batch, config_.heads),
          Heads::from_columns(kv.slice_cols(0, kv_width()), pass.batch, config_.kv_heads),
          Heads::from_columns(kv.slice_cols(kv_width(), kv_width()), pass.batch, config_.kv_heads)};
}

void MultiHeadAttention::project(const Pass& pass, ConstMatrix x, Matrix projected,
                                 Matrix memory_projected) const {
  in_.forward(x, projected);
  if (kv_) kv_->forward(pass.memory, memory_projected);
}

void MultiHeadAttention::rotate(const Tensors& t, std::size_t first, bool inverse) const {
  if (config_.rotary == nullptr) return;
  config_.rotary->apply(t.q, first, inverse);
  if (!shared_qk()) config_.rotary->apply(t.k, first, inverse);
}

AttentionInputs MultiHeadAttention::inputs(const Pass& pass, const Tensors& t,
                                           ConstMatrix x) const {
  AttentionInputs in;
  in.q = t.q;
  in.k = t.k;
  in.v = t.v;
  if (needs_.input) in.x = x;
  if (needs_.history && pass.history != nullptr) in.history = pass.history->rows();
  if (decodes(pass)) in.notes = pass.cache->notes;
  in.mask.causal = config_.causal;
  in.mask.globals = pass.globals;
  in.mask.key_lengths = config_.cross ? pass.memory_lengths : pass.lengths;
  if (pass.training) in.dropout = {config_.dropout, derive(pass.key, "attention")};
  return in;
}

void MultiHeadAttention::forward(const Pass& pass, ConstMatrix x, Matrix y,
                                 const BranchSaved* saved, Arena& arena) const {
  const Arena::Frame frame(arena);
  BranchSaved kept;
  if (saved != nullptr) {
    kept = *saved;
    if (kept.combined.data == nullptr) kept.combined = arena.matrix(pass.rows(), config_.d_model);
  } else {
    const BranchSignals p = take_projections(pass, arena);
    kept.projected = p.projected;
    kept.memory_projected = p.memory_projected;
    kept.combined = arena.matrix(pass.rows(), config_.d_model);
    kept.adapted_in = take_adapted(pass, arena);
    kept.adapted_out = take_adapted(pass, arena);
  }
  if (needs_.history && pass.history != nullptr && !pass.modulated) pass.history->record(x);
  project(pass, x, kept.projected, kept.memory_projected);
  if (in_adapter_) in_adapter_->forward(x, kept.adapted_in, kept.projected);
  attend(pass, x, kept, arena);
  out_.forward(kept.combined, y);
  if (out_adapter_) out_adapter_->forward(kept.combined, kept.adapted_out, y);
}

void MultiHeadAttention::attend(const Pass& pass, ConstMatrix x, const BranchSaved& kept,
                                Arena& arena) const {
  Tensors t = split(pass, kept.projected, kept.memory_projected);
  const Heads y = Heads::from_columns(kept.combined, pass.batch, config_.heads);
  rotate(t, decodes(pass) ? pass.cache->used : 0, false);
  if (decodes(pass)) {
    KeyValueCache& cache = *pass.cache;
    require(config_.causal && mechanism_->abilities().decode,
            "[{}] cannot decode token by token; need causal self-attention", mechanism_->name());
    require(cache.used + pass.length <= cache.capacity,
            "[decode] {} tokens do not fit behind {} in a cache of {}", pass.length, cache.used,
            cache.capacity);
    if (!cache.state.empty()) {
      mechanism_->decode(inputs(pass, t, x), y, cache.state, arena);
      cache.used += pass.length;
      return;
    }
    t = extend(cache, t);
  }
  const AttentionInputs in = inputs(pass, t, x);
  if (observer_ && !Dry::on()) observer_(in);
  mechanism_->forward(in, y, kept.mechanism, arena);
}

BranchSignals MultiHeadAttention::backward(const Pass& pass, const BranchSaved& saved,
                                           ConstMatrix dy, Matrix dx, Arena& arena) const {
  BranchSignals signals = take_projections(pass, arena);
  signals.mechanism = arena.take(mechanism_cost(pass).signals);
  signals.adapted_in = take_adapted(pass, arena);
  signals.adapted_out = take_adapted(pass, arena);
  const Tensors grad = split(pass, signals.projected, signals.memory_projected);
  {
    const Arena::Frame frame(arena);
    const Matrix dcombined = arena.matrix(pass.rows(), config_.d_model);
    out_.backward(dy, dcombined);
    if (out_adapter_) out_adapter_->backward(dy, signals.adapted_out, dcombined);
    const Tensors t = split(pass, saved.projected, saved.memory_projected);
    AttentionGradients to{.q = grad.q, .k = grad.k, .v = grad.v};
    if (needs_.input) to.x = dx;
    mechanism_->backward(inputs(pass, t, {}),
                         Heads::from_columns(saved.combined, pass.batch, config_.heads),
                         Heads::from_columns(dcombined, pass.batch, config_.heads), saved.mechanism,
                         to, signals.mechanism, arena);
  }
  rotate(grad, 0, true);
  in_.backward(signals.projected, dx, /*add=*/needs_.input);
  if (in_adapter_) in_adapter_->backward(signals.projected, signals.adapted_in, dx);
  if (kv_) kv_->backward(signals.memory_projected, pass.memory_gradient, /*add=*/true);
  return signals;
}

void MultiHeadAttention::accumulate(const Pass& pass, ConstMatrix x, const BranchSaved& saved,
                                    ConstMatrix dy, const BranchSignals& signals) const {
  out_.accumulate(saved.combined, dy);
  in_.accumulate(x, signals.projected);
  if (kv_) kv_->accumulate(pass.memory, signals.memory_projected);
  if (in_adapter_) {
    in_adapter_->accumulate(x, saved.adapted_in, signals.projected, signals.adapted_in);
    out_adapter_->accumulate(saved.combined, saved.adapted_out, dy, signals.adapted_out);
  }
  if (in_adapter_) return;  // everything else is frozen, the mechanism's parameters too
  const Tensors t = split(pass, saved.projected, saved.memory_projected);
  mechanism_->accumulate(inputs(pass, t, x), saved.mechanism, signals.mechanism);
}

MultiHeadAttention::Tensors MultiHeadAttention::extend(KeyValueCache& cache, Tensors fresh) const {
  copy(fresh.k, cache.k.slice(cache.used, fresh.k.n));
  copy(fresh.v, cache.v.slice(cache.used, fresh.v.n));
  cache.used += fresh.k.n;
  return {fresh.q, cache.k.first(cache.used), cache.v.first(cache.used)};
}

}  // namespace longspan
