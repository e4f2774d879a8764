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
    : config_(checked(config)) {
  const Abilities able = abilities_of(config.attention);
  const std::string_view who = find_mechanism(config.attention).name;
  require(!config.cross || able.cross,
          "[{}] attends within one sequence; cross-attention needs another mechanism", who);
  require(!able.shared_qk || config.heads == config.kv_heads,
          "[{}] its keys are its queries, so {} heads cannot share {} key heads", who, config.heads,
          config.kv_heads);
  const AttentionLayout layout{.name = name,
                               .stack = config.stack,
                               .layer = config.layer,
                               .d_model = config.d_model,
                               .heads = config.heads,
                               .kv_heads = config.kv_heads,
                               .d_head = d_head(),
                               .max_length = config.max_length,
                               .cross = config.cross,
                               .deviation = config.deviation};
  streams_ = streams_of(config.attention, layout);
  projections_ = std::make_unique<Projections>(streams_, layout, config.bias);
  projections_->declare_given(parameters, Source::kInput);
  out_.emplace(parameters, name + ".out", streams_.outputs(), config.d_model, config.bias,
               config.output_deviation);
  projections_->declare_given(parameters, Source::kMemory);
  if (config.lora_rank > 0) add_adapters(parameters, name);
  mechanism_ = make_attention(config.attention, {layout, parameters, *projections_});
  projections_->declare_on_call(parameters);
}

void MultiHeadAttention::add_adapters(Parameters& parameters, const std::string& name) {
  std::array<std::size_t, 2> columns{};
  std::array<std::size_t, 2> ranks{};
  for (const Stream& s : streams_.given) {
    const auto source = static_cast<std::size_t>(s.source);
    adapters_.push_back({Adapter(parameters, name + "." + s.name, config_.d_model, s.columns(),
                                 config_.lora_rank, config_.lora_alpha),
                         s.source, columns[source], s.columns(), ranks[source]});
    columns[source] += s.columns();
    ranks[source] += config_.lora_rank;
  }
  out_adapter_.emplace(parameters, name + ".out", streams_.outputs(), config_.d_model,
                       config_.lora_rank, config_.lora_alpha);
}

std::size_t MultiHeadAttention::adapted_columns(Source source) const {
  std::size_t total = 0;
  for (const StreamAdapter& a : adapters_) total += a.source == source ? config_.lora_rank : 0;
  return total;
}

template <class Do>
void MultiHeadAttention::for_each_adapter(Source source, Matrix all, Matrix low, Do act) const {
  for (const StreamAdapter& a : adapters_) {
    if (a.source != source) continue;
    act(a.adapter, all.slice_cols(a.first, a.columns),
        low.slice_cols(a.rank_first, config_.lora_rank));
  }
}

bool MultiHeadAttention::trained() const {
  return !projections_->frozen(Source::kInput) || (out_adapter_ && !out_adapter_->frozen());
}

AttentionShape MultiHeadAttention::shape(const Pass& pass) const {
  return {.batch = pass.batch,
          .heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .value_heads = value_heads(),
          .m = pass.length,
          .n = config_.cross ? pass.memory_length : pass.length,
          .d = d_head(),
          .e = value().width,
          .causal = config_.causal,
          .key_lengths = config_.cross ? pass.memory_lengths : pass.lengths,
          .dropout = pass.training && config_.dropout > 0.0F,
          .history_length = calls(Source::kHistory) ? pass.history_length : 0,
          .globals = pass.globals};
}

AttentionCost MultiHeadAttention::mechanism_cost(const Pass& pass) const {
  return mechanism_->cost(shape(pass));
}

AttentionShape MultiHeadAttention::cached_shape(std::size_t batch, std::size_t capacity) const {
  return {.batch = batch,
          .heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .value_heads = value_heads(),
          .m = 1,
          .n = capacity,
          .d = d_head(),
          .e = value().width,
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
  p.projected = arena.matrix(pass.rows(), columns(Source::kInput));
  if (config_.cross) {
    p.memory_projected = arena.matrix(pass.memory_rows(), columns(Source::kMemory));
  }
  return p;
}

BranchSaved MultiHeadAttention::save(const Pass& pass, Arena& arena) const {
  const BranchSignals p = take_projections(pass, arena);
  BranchSaved saved;
  saved.projected = p.projected;
  saved.memory_projected = p.memory_projected;
  saved.combined = arena.matrix(pass.rows(), streams_.outputs());
  saved.mechanism = arena.take(mechanism_cost(pass).saved);
  take_adapted(pass, arena, saved);
  return saved;
}

MultiHeadAttention::Tensors MultiHeadAttention::split(const Pass& pass, Matrix projected,
                                                      Matrix memory_projected) const {
  Tensors t;
  std::array<std::size_t, 2> used{};
  std::size_t index = 0;
  for (const Stream& s : streams_.given) {
    std::size_t& first = used[static_cast<std::size_t>(s.source)];
    const Matrix from = s.source == Source::kInput ? projected : memory_projected;
    const Heads heads =
        Heads::from_columns(from.slice_cols(first, s.columns()), pass.batch, s.heads);
    first += s.columns();
    if (index == 1 && shared_qk()) ++index;  // k is q
    if (index == 0) t.q = t.k = heads;
    if (index == 1) t.k = heads;
    if (index == 2) t.v = heads;
    if (index > 2) {
      t.more_read[t.count] = heads;
      t.more[t.count++] = heads;
    }
    ++index;
  }
  return t;
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
  in.more = std::span(t.more_read).first(t.count);
  if (calls(Source::kInput)) in.x = x;
  if (calls(Source::kHistory) && pass.history != nullptr) in.history = pass.history->rows();
  if (decodes(pass)) in.notes = pass.cache->notes;
  in.mask.causal = config_.causal;
  in.mask.globals = pass.globals;
  in.mask.key_lengths = config_.cross ? pass.memory_lengths : pass.lengths;
  if (pass.training) in.dropout = {config_.dropout, derive(pass.key, "attention")};
  return in;
}

void MultiHeadAttention::project(Source source, ConstMatrix x, Matrix y, Matrix low) const {
  if (y.cols == 0) return;
  projections_->forward(source, x, y);
  for_each_adapter(source, y, low,
                   [&](const Adapter& a, Matrix mine, Matrix t) { a.forward(x, t, mine); });
}

void MultiHeadAttention::forward(const Pass& pass, ConstMatrix x, Matrix y,
                                 const BranchSaved* saved, Arena& arena) const {
  const Arena::Frame frame(arena);
  BranchSaved kept;
  if (saved != nullptr) {
    kept = *saved;
    if (kept.combined.data == nullptr) {
      kept.combined = arena.matrix(pass.rows(), streams_.outputs());
    }
  } else {
    const BranchSignals p = take_projections(pass, arena);
    kept.projected = p.projected;
    kept.memory_projected = p.memory_projected;
    kept.combined = arena.matrix(pass.rows(), streams_.outputs());
    take_adapted(pass, arena, kept);
  }
  if (calls(Source::kHistory) && pass.history != nullptr && !pass.modulated) {
    pass.history->record(x);
  }
  project(Source::kInput, x, kept.projected, kept.adapted_in);
  project(Source::kMemory, pass.memory, kept.memory_projected, kept.adapted_memory);
  attend(pass, x, kept, arena);
  out_->forward(kept.combined, y);
  if (out_adapter_) out_adapter_->forward(kept.combined, kept.adapted_out, y);
}

void MultiHeadAttention::attend(const Pass& pass, ConstMatrix x, const BranchSaved& kept,
                                Arena& arena) const {
  Tensors t = split(pass, kept.projected, kept.memory_projected);
  const Heads y = combined(pass, kept.combined);
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
  mechanism_->forward({in, y, kept.mechanism, arena});
}

BranchSignals MultiHeadAttention::backward(const Pass& pass, const BranchSaved& saved,
                                           ConstMatrix dy, Matrix dx, Arena& arena) const {
  BranchSignals signals = take_projections(pass, arena);
  signals.mechanism = arena.take(mechanism_cost(pass).signals);
  take_adapted(pass, arena, signals);
  const Tensors grad = split(pass, signals.projected, signals.memory_projected);
  {
    const Arena::Frame frame(arena);
    const Matrix dcombined = arena.matrix(pass.rows(), streams_.outputs());
    out_->backward(dy, dcombined);
    if (out_adapter_) out_adapter_->backward(dy, signals.adapted_out, dcombined);
    attend_backward(pass, saved, dcombined, grad, dx, signals.mechanism, arena);
  }
  rotate(grad, 0, true);
  project_backward(Source::kInput, signals.projected, signals.adapted_in, dx,
                   /*add=*/calls(Source::kInput));
  project_backward(Source::kMemory, signals.memory_projected, signals.adapted_memory,
                   pass.memory_gradient, /*add=*/true);
  return signals;
}

void MultiHeadAttention::project_backward(Source source, Matrix dy, Matrix low, Matrix dx,
                                          bool add) const {
  if (dy.cols == 0) return;
  projections_->backward(source, dy, dx, add);
  for_each_adapter(source, dy, low,
                   [&](const Adapter& a, Matrix mine, Matrix u) { a.backward(mine, u, dx); });
}

void MultiHeadAttention::attend_backward(const Pass& pass, const BranchSaved& saved,
                                         Matrix dcombined, const Tensors& grad, Matrix dx,
                                         std::span<float> signals, Arena& arena) const {
  const Tensors t = split(pass, saved.projected, saved.memory_projected);
  AttentionGradients to{.q = grad.q, .k = grad.k, .v = grad.v};
  to.more = std::span(grad.more).first(grad.count);
  if (calls(Source::kInput)) to.x = dx;
  mechanism_->backward({inputs(pass, t, {}), combined(pass, saved.combined),
                        combined(pass, dcombined), saved.mechanism, to, signals, arena});
}

void MultiHeadAttention::accumulate(const Pass& pass, ConstMatrix x, const BranchSaved& saved,
                                    ConstMatrix dy, const BranchSignals& signals) const {
  out_->accumulate(saved.combined, dy);
  project_accumulate(Source::kInput, x, signals.projected, saved.adapted_in, signals.adapted_in);
  project_accumulate(Source::kMemory, pass.memory, signals.memory_projected, saved.adapted_memory,
                     signals.adapted_memory);
  if (out_adapter_) {
    out_adapter_->accumulate(saved.combined, saved.adapted_out, dy, signals.adapted_out);
    return;  // everything else is frozen, the mechanism's parameters too
  }
  const Tensors t = split(pass, saved.projected, saved.memory_projected);
  mechanism_->accumulate(inputs(pass, t, x), saved.mechanism, signals.mechanism);
}

void MultiHeadAttention::project_accumulate(Source source, ConstMatrix x, Matrix dy, Matrix low,
                                            Matrix low_signal) const {
  if (dy.cols == 0) return;
  projections_->accumulate(source, x, dy);
  for (const StreamAdapter& a : adapters_) {
    if (a.source != source) continue;
    a.adapter.accumulate(x, low.slice_cols(a.rank_first, config_.lora_rank),
                         dy.slice_cols(a.first, a.columns),
                         low_signal.slice_cols(a.rank_first, config_.lora_rank));
  }
}

MultiHeadAttention::Tensors MultiHeadAttention::extend(KeyValueCache& cache, Tensors fresh) const {
  copy(fresh.k, cache.k.slice(cache.used, fresh.k.n));
  copy(fresh.v, cache.v.slice(cache.used, fresh.v.n));
  cache.used += fresh.k.n;
  fresh.k = cache.k.first(cache.used);
  fresh.v = cache.v.first(cache.used);
  return fresh;
}

}  // namespace longspan
