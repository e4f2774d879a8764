#include "longspan/layers/multi_head_attention.h"

#include <algorithm>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/kernels/vector.h"

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
      in_(parameters, name + (config.cross ? ".q" : ".qkv"), config.d_model, projected_width(),
          config.bias, config.deviation),
      out_(parameters, name + ".out", config.d_model, config.d_model, config.bias,
           config.output_deviation) {
  if (config.cross) {
    kv_.emplace(parameters, name + ".kv", config.d_model, 2 * kv_width(), config.bias,
                config.deviation);
  }
}

std::size_t MultiHeadAttention::projected_width() const {
  return config_.cross ? config_.d_model : config_.d_model + 2 * kv_width();
}

AttentionShape MultiHeadAttention::shape(const Pass& pass) const {
  return {.batch = pass.batch,
          .heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .m = pass.length,
          .n = config_.cross   ? pass.memory_length
               : decodes(pass) ? pass.cache->k.n
                               : pass.length,
          .d = d_head(),
          .e = d_head(),
          .causal = config_.causal,
          .key_lengths = config_.cross ? pass.memory_lengths : pass.lengths,
          .dropout = pass.training && config_.dropout > 0.0F};
}

std::size_t MultiHeadAttention::mechanism_floats(const Pass& pass) const {
  return mechanism_->cost(shape(pass)).saved;
}

BranchSignals MultiHeadAttention::take_projections(const Pass& pass, Arena& arena) const {
  BranchSignals p;
  p.projected = arena.matrix(pass.rows(), projected_width());
  if (config_.cross) p.memory_projected = arena.matrix(pass.memory_rows(), 2 * kv_width());
  return p;
}

std::size_t MultiHeadAttention::projection_bytes(const Pass& pass) const {
  return Arena::bytes_for(pass.rows() * projected_width()) +
         (config_.cross ? Arena::bytes_for(pass.memory_rows() * 2 * kv_width()) : 0);
}

BranchSaved MultiHeadAttention::save(const Pass& pass, Arena& arena) const {
  const BranchSignals p = take_projections(pass, arena);
  BranchSaved saved;
  saved.projected = p.projected;
  saved.memory_projected = p.memory_projected;
  saved.combined = arena.matrix(pass.rows(), config_.d_model);
  saved.mechanism = arena.take(mechanism_floats(pass));
  return saved;
}

Footprint MultiHeadAttention::footprint(const Pass& pass) const {
  const AttentionCost mechanism = mechanism_->cost(shape(pass));
  const std::size_t combined = Arena::bytes_for(pass.rows() * config_.d_model);
  const std::size_t projections = projection_bytes(pass);
  return {.saved = projections + combined + Arena::bytes_for(mechanism.saved),
          .forward_scratch = mechanism.forward_scratch,
          .inference_scratch = projections + combined + mechanism.forward_scratch,
          .backward_scratch = projections + combined + mechanism.backward_scratch};
}

Cost MultiHeadAttention::cost(const Pass& pass) const {
  Cost cost = in_.cost(pass.rows()) + out_.cost(pass.rows());
  if (kv_) cost += kv_->cost(pass.memory_rows());
  const AttentionCost mechanism = mechanism_->cost(shape(pass));
  cost.forward += mechanism.forward;
  cost.backward += mechanism.backward;
  if (config_.rotary != nullptr) {
    const std::uint64_t elements = std::uint64_t{pass.rows()} * (config_.d_model + kv_width());
    cost.forward += RotaryTable::work(elements);
    cost.backward += RotaryTable::work(elements);
  }
  return cost;
}

MultiHeadAttention::Tensors MultiHeadAttention::split(const Pass& pass, Matrix projected,
                                                      Matrix memory_projected) const {
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
  config_.rotary->apply(t.k, first, inverse);
}

AttentionInputs MultiHeadAttention::inputs(const Pass& pass, const Tensors& t) const {
  AttentionInputs in;
  in.q = t.q;
  in.k = t.k;
  in.v = t.v;
  in.mask.causal = config_.causal;
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
  } else {
    const BranchSignals p = take_projections(pass, arena);
    kept.projected = p.projected;
    kept.memory_projected = p.memory_projected;
    kept.combined = arena.matrix(pass.rows(), config_.d_model);
  }
  project(pass, x, kept.projected, kept.memory_projected);
  Tensors t = split(pass, kept.projected, kept.memory_projected);
  rotate(t, decodes(pass) ? pass.cache->used : 0, false);
  if (decodes(pass)) t = extend(*pass.cache, t);
  mechanism_->forward(inputs(pass, t),
                      Heads::from_columns(kept.combined, pass.batch, config_.heads), kept.mechanism,
                      arena);
  out_.forward(kept.combined, y);
}

BranchSignals MultiHeadAttention::backward(const Pass& pass, const BranchSaved& saved,
                                           ConstMatrix dy, Matrix dx, Arena& arena) const {
  const BranchSignals signals = take_projections(pass, arena);
  const Tensors grad = split(pass, signals.projected, signals.memory_projected);
  {
    const Arena::Frame frame(arena);
    const Matrix dcombined = arena.matrix(pass.rows(), config_.d_model);
    out_.backward(dy, dcombined);
    const Tensors t = split(pass, saved.projected, saved.memory_projected);
    mechanism_->backward(inputs(pass, t),
                         Heads::from_columns(saved.combined, pass.batch, config_.heads),
                         Heads::from_columns(dcombined, pass.batch, config_.heads), saved.mechanism,
                         {grad.q, grad.k, grad.v, {}}, arena);
  }
  rotate(grad, 0, true);
  in_.backward(signals.projected, dx);
  if (kv_) kv_->backward(signals.memory_projected, pass.memory_gradient, /*add=*/true);
  return signals;
}

void MultiHeadAttention::accumulate(const Pass& pass, ConstMatrix x, const BranchSaved& saved,
                                    ConstMatrix dy, const BranchSignals& signals) const {
  out_.accumulate(saved.combined, dy);
  in_.accumulate(x, signals.projected);
  if (kv_) kv_->accumulate(pass.memory, signals.memory_projected);
}

MultiHeadAttention::Tensors MultiHeadAttention::extend(KeyValueCache& cache, Tensors fresh) const {
  const std::size_t count = fresh.k.n;
  require(config_.causal && mechanism_->abilities().decode,
          "[{}] cannot decode token by token; need causal self-attention", mechanism_->name());
  require(cache.used + count <= cache.k.n,
          "[decode] {} tokens do not fit behind {} in a cache of {}", count, cache.used, cache.k.n);
  for (std::size_t b = 0; b < fresh.k.batch; ++b) {
    for (std::size_t g = 0; g < config_.kv_heads; ++g) {
      copy(fresh.k.head(b, g), cache.k.head(b, g).slice_rows(cache.used, count));
      copy(fresh.v.head(b, g), cache.v.head(b, g).slice_rows(cache.used, count));
    }
  }
  cache.used += count;
  return {fresh.q, cache.k.first(cache.used), cache.v.first(cache.used)};
}

}  // namespace longspan
