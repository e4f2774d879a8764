#include "longspan/layers/multi_head_attention.h"

#include <algorithm>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/kernels/rows/sequence.h"

namespace longspan {

namespace {

const MultiHeadAttentionConfig& checked(const MultiHeadAttentionConfig& c) {
  require(c.heads > 0 && (c.head_width > 0 || c.d_model % c.heads == 0),
          "[attention] width {} does not divide into {} heads; need a multiple, or head_width",
          c.d_model, c.heads);
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
  require(!config.cross || able.cross || (config.pooled && able.pooled),
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
                               .deviation = config.deviation,
                               .step = config.step};
  streams_ = streams_of(config.attention, layout);
  const std::size_t first_more = able.shared_qk ? 2 : 3;
  require(streams_.given.size() <= first_more + kMostMore,
          "[{}] {} streams behind q, k and v; need at most {}", who,
          streams_.given.size() - first_more, kMostMore);
  projections_ = std::make_unique<Projections>(streams_, layout, config.bias);
  for (const Stream& s : streams_.given) first_columns_.push_back(projections_->column(s.name));
  projections_->declare_given(parameters, Source::kInput);
  if (config.query_norm != QueryNorm::kNone && !config.cross) add_norms(parameters, name);
  out_.emplace(parameters, name + ".out", streams_.outputs(), config.d_model, config.output_bias,
               config.output_deviation, Role::kBranchOutput);
  projections_->declare_given(parameters, Source::kContext);
  if (config.lora_rank > 0) add_adapters(parameters, name);
  mechanism_ = make_attention(config.attention, {layout, parameters, *projections_});
  projections_->declare_on_call(parameters);
}

void MultiHeadAttention::add_adapters(Parameters& parameters, const std::string& name) {
  std::array<std::size_t, 2> ranks{};
  for (std::size_t i = 0; i < streams_.given.size(); ++i) {
    const Stream& s = streams_.given[i];
    const auto source = static_cast<std::size_t>(s.source);
    adapters_.push_back({Adapter(parameters, name + "." + s.name, config_.d_model, s.columns(),
                                 config_.lora_rank, config_.lora_alpha),
                         s.source, first_columns_[i], s.columns(), ranks[source]});
    ranks[source] += config_.lora_rank;
  }
  out_adapter_.emplace(parameters, name + ".out", streams_.outputs(), config_.d_model,
                       config_.lora_rank, config_.lora_alpha, Role::kOutputAdapter);
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

void MultiHeadAttention::add_norms(Parameters& parameters, const std::string& name) {
  const bool whole = config_.query_norm == QueryNorm::kWhole;
  const auto add = [&](const char* own, const Stream& stream, std::size_t first) {
    auto norm = std::make_unique<Norm>(parameters, name + own, config_.norm,
                                       whole ? stream.columns() : stream.width,
                                       config_.norm_epsilon, Role::kNorm, config_.norm_learns);
    const std::size_t each = whole ? stream.columns() : stream.width;
    for (std::size_t at = 0; at < stream.columns(); at += each) {
      normed_.push_back({norm.get(), first + at, each});
    }
    return norm;
  };
  query_norm_ = add(".query_norm", query(), first_columns_[0]);
  // There is no mechanism yet that could be asked whether keys are the queries.
  const Stream& second = streams_.given[1];
  if (second.name == "k") key_norm_ = add(".key_norm", second, first_columns_[1]);
}

Norm::Saved MultiHeadAttention::norm_saved(std::size_t i, const Kept& kept) const {
  if (kept[kNormed].size() == 0) return {};
  std::size_t before = 0;
  for (std::size_t j = 0; j < i; ++j) before += normed_[j].columns;
  return {kept[kNormed].slice_cols(before, normed_[i].columns), kept[kInverse].row(i)};
}

void MultiHeadAttention::norm_queries(const Kept& kept) const {
  for (std::size_t i = 0; i < normed_.size(); ++i) {
    const Matrix x = kept[kProjected].slice_cols(normed_[i].first, normed_[i].columns);
    normed_[i].norm->forward(x, x, norm_saved(i, kept));
  }
}

// From the signals of normed queries and keys to those of the projections.
void MultiHeadAttention::norm_back(const Kept& saved, const Kept& signals) const {
  for (std::size_t i = 0; i < normed_.size(); ++i) {
    const Matrix g = signals[kProjected].slice_cols(normed_[i].first, normed_[i].columns);
    const Norm::Saved own = norm_saved(i, saved);
    {
      const Place::Scope scope(meter_name(), Phase::kUpdate);
      normed_[i].norm->accumulate(own, g);
    }
    normed_[i].norm->backward(own, g, g, /*add=*/false);
  }
}

bool MultiHeadAttention::trained() const {
  return !projections_->frozen(Source::kInput) || (out_adapter_ && !out_adapter_->frozen());
}

AttentionShape MultiHeadAttention::shape(std::size_t batch, std::size_t m, std::size_t n) const {
  return {.batch = batch,
          .heads = query().heads,
          .kv_heads = key().heads,
          .value_heads = value().heads == key().heads ? 0 : value().heads,
          .m = m,
          .n = n,
          .d = query().width,
          .e = value().width,
          .causal = config_.causal};
}

AttentionShape MultiHeadAttention::shape(const Pass& pass) const {
  AttentionShape s =
      shape(pass.batch, pass.length, config_.cross ? pass.context_length : pass.length);
  s.key_lengths = config_.cross ? pass.context_lengths : pass.lengths;
  s.dropout = pass.training && config_.dropout > 0.0F;
  s.history_length = calls(Source::kHistory) ? pass.history_length : 0;
  s.globals = pass.globals;
  return s;
}

void MultiHeadAttention::check(const Pass& pass) const {
  for_each_run(pass, [&](const Run& run) { mechanism_->check(shape(run.pass)); });
}

void MultiHeadAttention::Part::go_on(std::size_t next) {
  first = Arena::bytes_for(first + count) / sizeof(float);
  count = next;
}

template <class Body>
void MultiHeadAttention::for_each_call(const Pass& pass, const Body& body) const {
  Parts parts;
  for_each_run(pass, [&](const Run& run) {
    const AttentionCost cost = mechanism_->cost(shape(run.pass));
    parts.saved.go_on(cost.saved);
    parts.signals.go_on(cost.signals);
    body(run, parts);
  });
}

MultiHeadAttention::Parts MultiHeadAttention::last_parts(const Pass& pass) const {
  Parts last;
  for_each_call(pass, [&](const Run&, const Parts& parts) { last = parts; });
  return last;
}

Kept MultiHeadAttention::kept_of(const Run& run, const Kept& kept, const Part& own) const {
  Kept part;
  part[kProjected] = run.rows(kept[kProjected]);
  if (config_.cross) part[kContextProjected] = run.context_rows(kept[kContextProjected]);
  if (kept[kCombined].rows > 0) part[kCombined] = run.rows(kept[kCombined]);
  if (kept[kMechanism].size() > 0) {
    part[kMechanism] = kept[kMechanism].slice_cols(own.first, own.count);
  }
  return part;
}

AttentionShape MultiHeadAttention::cached_shape(std::size_t batch, std::size_t capacity) const {
  return shape(batch, 1, capacity);
}

MultiHeadAttention::CacheLayout MultiHeadAttention::cache_layout(std::size_t batch,
                                                                 std::size_t capacity) const {
  CacheLayout l;
  l.state = mechanism_->state_floats(cached_shape(batch, 1));
  if (l.state > 0) return l;
  const auto aligned = [](std::size_t count) { return Arena::bytes_for(count) / sizeof(float); };
  const std::size_t tokens = cached_tokens(capacity);
  l.keys = aligned(batch * key().columns() * tokens);
  l.values = aligned(batch * value().columns() * tokens);
  l.notes = aligned(mechanism_->note_floats(cached_shape(batch, capacity)));
  return l;
}

std::size_t MultiHeadAttention::cached_tokens(std::size_t capacity) const {
  constexpr std::size_t kNext = 512;
  const std::size_t read = mechanism_->reads_back();
  return read >= capacity ? capacity : std::min(capacity, read + DecodeCache::kDropped + kNext);
}

void MultiHeadAttention::size_cache(std::size_t context, DecodeCache& cache) const {
  if (config_.cross) {
    const std::size_t each = context * columns(Source::kContext);
    cache.floats = cache.batch * each;
    cache.parts[0] = {.each = each, .fixed = true};
    return;
  }
  const CacheLayout l = cache_layout(cache.batch, cache.capacity);
  cache.floats = l.keys + l.values + l.notes + l.state;
  cache.zeroed = l.state;
  cache.window = mechanism_->reads_back();
  if (l.state > 0) {
    cache.parts[0] = {.each = l.state / cache.batch};
    return;
  }
  const auto part = [&](std::size_t begin, const Stream& stream) {
    return DecodeCache::Part{.begin = begin,
                             .each = stream.columns() * cached_tokens(cache.capacity),
                             .planes = stream.heads,
                             .token = stream.width};
  };
  const std::size_t notes = mechanism_->note_floats(cached_shape(1, cache.capacity));
  const std::size_t own = mechanism_->note_floats(cached_shape(2, cache.capacity)) - notes;
  cache.parts = {part(0, key()),
                 part(l.keys, value()),
                 {.begin = l.keys + l.values, .each = own, .common = notes - own}};
}

void MultiHeadAttention::take_projections(const Pass& pass, Arena& arena, Kept& kept) const {
  kept[kProjected] = arena.matrix(pass.rows(), columns(Source::kInput));
  if (config_.cross) {
    kept[kContextProjected] = arena.matrix(pass.context_rows(), columns(Source::kContext));
  }
}

void MultiHeadAttention::take_adapted(const Pass& pass, Arena& arena, Kept& kept) const {
  kept[kAdaptedIn] = arena.matrix(pass.rows(), adapted_columns(Source::kInput));
  kept[kAdaptedContext] = arena.matrix(pass.context_rows(), adapted_columns(Source::kContext));
  kept[kAdaptedOut] = arena.matrix(pass.rows(), config_.lora_rank);
}

Kept MultiHeadAttention::save(const Pass& pass, Arena& arena) const {
  Kept saved;
  take_projections(pass, arena, saved);
  saved[kCombined] = arena.matrix(pass.rows(), streams_.outputs());
  saved[kMechanism] = arena.matrix(1, last_parts(pass).saved.end());
  take_adapted(pass, arena, saved);
  if (!normed_.empty()) {
    saved[kNormed] = arena.matrix(pass.rows(), normed_columns());
    saved[kInverse] = arena.matrix(normed_.size(), pass.rows());
  }
  return saved;
}

MultiHeadAttention::Tensors MultiHeadAttention::split(const Pass& pass, const Kept& kept) const {
  Tensors t;
  std::size_t index = 0;
  for (std::size_t i = 0; i < streams_.given.size(); ++i) {
    const Stream& s = streams_.given[i];
    const Matrix from = kept[s.source == Source::kInput ? kProjected : kContextProjected];
    const Heads heads =
        Heads::from_columns(from.slice_cols(first_columns_[i], s.columns()), pass.batch, s.heads);
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

AttentionInputs MultiHeadAttention::inputs(const Pass& pass, const Tensors& t, ConstMatrix x,
                                           const Beside& beside) const {
  AttentionInputs in;
  in.q = t.q;
  in.k = t.k;
  in.v = t.v;
  in.more = std::span(t.more_read).first(t.count);
  if (calls(Source::kInput)) in.x = x;
  if (calls(Source::kHistory) && beside.history != nullptr) in.history = beside.history->rows();
  in.mask.causal = config_.causal;
  in.mask.globals = pass.globals;
  in.mask.key_lengths = config_.cross ? pass.context_lengths : pass.lengths;
  in.token_types = config_.cross ? pass.context_types : pass.token_types;
  if (pass.training) in.dropout = {config_.dropout, derive(pass.key, "attention")};
  return in;
}

void MultiHeadAttention::project(Source source, ConstMatrix x, Matrix y, Matrix low) const {
  if (y.cols == 0) return;
  projections_->forward(source, x, y);
  for_each_adapter(source, y, low,
                   [&](const Adapter& a, Matrix mine, Matrix t) { a.forward(x, t, mine); });
}

// The keys and values of the context, which a cache holds from the first token on.
void MultiHeadAttention::project_context(const BranchForward& call, Kept& kept) const {
  if (!config_.cross) return;
  const Pass& pass = call.pass;
  const DecodeCache* cache = call.beside.cache;
  if (cache != nullptr) {
    kept[kContextProjected] = {cache->data, pass.context_rows(), columns(Source::kContext)};
    if (cache->used > 0) return;
  }
  project(Source::kContext, pass.context, kept[kContextProjected], kept[kAdaptedContext]);
}

void MultiHeadAttention::forward(const BranchForward& call) const {
  const Pass& pass = call.pass;
  Arena& arena = call.arena;
  const Arena::Frame frame(arena);
  Kept kept;
  if (call.saved != nullptr) {
    kept = *call.saved;
    if (kept[kCombined].data == nullptr) {
      kept[kCombined] = arena.matrix(pass.rows(), streams_.outputs());
    }
  } else {
    take_projections(pass, arena, kept);
    kept[kCombined] = arena.matrix(pass.rows(), streams_.outputs());
    take_adapted(pass, arena, kept);
  }
  if (remembers() && call.beside.history != nullptr && call.beside.records) {
    call.beside.history->record(call.x);
  }
  project(Source::kInput, call.x, kept[kProjected], kept[kAdaptedIn]);
  norm_queries(kept);
  project_context(call, kept);
  attend(call, kept);
  out_->forward(kept[kCombined], call.y);
  if (out_adapter_) out_adapter_->forward(kept[kCombined], kept[kAdaptedOut], call.y);
}

void MultiHeadAttention::attend(const BranchForward& call, const Kept& kept) const {
  const DecodeCache* cache = config_.cross ? nullptr : call.beside.cache;
  if (cache != nullptr) {
    const Tensors t = split(call.pass, kept);
    rotate(t, cache->used, false);
    return decode(call, kept, t);
  }
  for_each_call(call.pass, [&](const Run& run, const Parts& parts) {
    const Kept own = kept_of(run, kept, parts.saved);
    const Tensors t = split(run.pass, own);
    rotate(t, 0, false);
    const AttentionInputs in = inputs(run.pass, t, run.rows(call.x), call.beside);
    if (observer_ && !Dry::on()) observer_(in);
    mechanism_->forward(
        {in, combined(run.pass, own[kCombined]), floats(own[kMechanism]), call.arena});
  });
}

void MultiHeadAttention::rotate_back(const Pass& pass, const Kept& signals) const {
  for_each_run(
      pass, [&](const Run& run) { rotate(split(run.pass, kept_of(run, signals, {})), 0, true); });
}

void MultiHeadAttention::decode(const BranchForward& call, const Kept& kept,
                                const Tensors& t) const {
  const Pass& pass = call.pass;
  const DecodeCache& cache = *call.beside.cache;
  require(decodes(), "[{}] cannot decode token by token; need causal self-attention",
          mechanism_->name());
  require(cache.used + pass.length <= cache.capacity,
          "[decode] {} tokens do not fit behind {} in a cache of {}", pass.length, cache.used,
          cache.capacity);
  const CacheLayout l = cache_layout(cache.batch, cache.capacity);
  if (l.state > 0) {
    const Heads y = combined(pass, kept[kCombined]);
    mechanism_->decode(inputs(pass, t, call.x, call.beside), y, {cache.data, l.state}, call.arena);
    return;
  }
  for (std::size_t done = 0; done < pass.length;) {
    const std::size_t used = cache.used + done;
    const std::size_t room = cached_tokens(cache.capacity) - (used - cache.first_of(used));
    const std::size_t count = std::min(room, pass.length - done);
    decode_piece(call, kept, t, {.first = done, .count = count, .used = used});
    done += count;
  }
}

void MultiHeadAttention::decode_piece(const BranchForward& call, const Kept& kept, Tensors t,
                                      const Piece& p) const {
  const DecodeCache& cache = *call.beside.cache;
  const CacheLayout l = cache_layout(cache.batch, cache.capacity);
  const std::size_t rows = cached_tokens(cache.capacity);
  const std::size_t first = cache.first_of(p.used);
  const std::size_t end = p.used + p.count - first;  // in the cache
  const std::size_t dropped = cache.first_of(p.used + p.count) - first;
  t.q = t.q.slice(p.first, p.count);
  const auto extend = [&](float* data, Heads& fresh) {
    const Heads all(data, cache.batch, fresh.heads, rows, fresh.d);
    copy(fresh.slice(p.first, p.count), all.slice(p.used - first, p.count));
    fresh = all.first(end);
  };
  // Pieces that do not overlap where they go.
  const auto drop = [&](const Heads& all) {
    for (std::size_t at = 0; dropped > 0 && at < end - dropped; at += dropped) {
      const std::size_t count = std::min(dropped, end - dropped - at);
      copy(all.slice(at + dropped, count), all.slice(at, count));
    }
  };
  extend(cache.data, t.k);
  extend(cache.data + l.keys, t.v);
  AttentionInputs in = inputs(call.pass, t, call.x, call.beside);
  in.notes = {cache.data + l.keys + l.values,
              mechanism_->note_floats(cached_shape(cache.batch, cache.capacity))};
  if (observer_ && !Dry::on()) observer_(in);
  const Heads y = combined(call.pass, kept[kCombined]).slice(p.first, p.count);
  mechanism_->forward({in, y, floats(kept[kMechanism]), call.arena});
  drop(t.k);
  drop(t.v);
}

Kept MultiHeadAttention::backward(const BranchBackward& call) const {
  const Pass& pass = call.pass;
  Arena& arena = call.arena;
  Kept signals;
  take_projections(pass, arena, signals);
  signals[kMechanism] = arena.matrix(1, last_parts(pass).signals.end());
  take_adapted(pass, arena, signals);
  {
    const Arena::Frame frame(arena);
    const Matrix dcombined = arena.matrix(pass.rows(), streams_.outputs());
    out_->backward(call.dy, dcombined);
    if (out_adapter_) out_adapter_->backward(call.dy, signals[kAdaptedOut], dcombined);
    attend_backward(pass, call.saved, dcombined, signals, call.dx, call.beside, arena);
  }
  rotate_back(pass, signals);
  norm_back(call.saved, signals);
  project_backward(Source::kInput, signals[kProjected], signals[kAdaptedIn], call.dx,
                   /*add=*/calls(Source::kInput));
  project_backward(Source::kContext, signals[kContextProjected], signals[kAdaptedContext],
                   call.beside.context_gradient, /*add=*/true);
  return signals;
}

void MultiHeadAttention::project_backward(Source source, Matrix dy, Matrix low, Matrix dx,
                                          bool add) const {
  if (dy.cols == 0) return;
  projections_->backward(source, dy, dx, add);
  for_each_adapter(source, dy, low,
                   [&](const Adapter& a, Matrix mine, Matrix u) { a.backward(mine, u, dx); });
}

void MultiHeadAttention::attend_backward(const Pass& pass, const Kept& saved, Matrix dcombined,
                                         const Kept& grad, Matrix dx, const Beside& beside,
                                         Arena& arena) const {
  for_each_call(pass, [&](const Run& run, const Parts& parts) {
    const Kept to_own = kept_of(run, grad, parts.signals);
    const Tensors g = split(run.pass, to_own);
    AttentionGradients to{.q = g.q, .k = g.k, .v = g.v};
    to.more = std::span(g.more).first(g.count);
    if (calls(Source::kInput)) to.x = run.rows(dx);
    const Kept own = kept_of(run, saved, parts.saved);
    const Tensors t = split(run.pass, own);
    mechanism_->backward({inputs(run.pass, t, {}, beside), combined(run.pass, own[kCombined]),
                          combined(run.pass, run.rows(dcombined)), floats(own[kMechanism]), to,
                          floats(to_own[kMechanism]), arena});
  });
}

void MultiHeadAttention::accumulate(const BranchUpdate& call) const {
  const Kept& saved = call.saved;
  const Kept& signals = call.signals;
  out_->accumulate(saved[kCombined], call.dy);
  project_accumulate(Source::kInput, call.x, signals[kProjected], saved[kAdaptedIn],
                     signals[kAdaptedIn]);
  project_accumulate(Source::kContext, call.pass.context, signals[kContextProjected],
                     saved[kAdaptedContext], signals[kAdaptedContext]);
  if (out_adapter_) {
    out_adapter_->accumulate(saved[kCombined], saved[kAdaptedOut], call.dy, signals[kAdaptedOut]);
    return;  // everything else is frozen, the mechanism's parameters too
  }
  for_each_call(call.pass, [&](const Run& run, const Parts& parts) {
    const Kept own = kept_of(run, saved, parts.saved);
    const Tensors t = split(run.pass, own);
    mechanism_->accumulate(inputs(run.pass, t, run.rows(call.x), call.beside),
                           floats(own[kMechanism]),
                           floats(kept_of(run, signals, parts.signals)[kMechanism]));
  });
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

}  // namespace longspan
