#include "longspan/layers/latent_attention.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/kernels/gemm/heads_gemm.h"
#include "longspan/kernels/rows/sequence.h"

namespace longspan {

namespace {

const LatentAttentionConfig& checked(const LatentAttentionConfig& config,
                                     const MultiHeadAttentionConfig& layer) {
  check_numbers(LatentAttention::kName, config);
  require(layer.heads > 0, "[latent] {} heads; need at least one", layer.heads);
  require(layer.lora_rank == 0,
          "[latent] adapters of rank {}, and its matrices take none; need lora_rank = 0",
          layer.lora_rank);
  return config;
}

// Channels [first, first + count) of every head.
template <class T>
HeadsView<T> channels(HeadsView<T> x, std::size_t first, std::size_t count) {
  x.data += first;
  x.d = count;
  return x;
}

// One head as if there were many.
template <class T>
HeadsView<T> repeated(HeadsView<T> x, std::size_t heads) {
  x.heads = heads;
  x.head_stride = 0;
  return x;
}

FlashConfig core_config(const LatentAttentionConfig& c) {
  const auto width = static_cast<double>(c.nope + c.rope);
  return {.scale = c.scale > 0.0 ? c.scale : 1.0 / std::sqrt(width)};
}

}  // namespace

LatentAttention::LatentAttention(Parameters& parameters, const std::string& name,
                                 const LatentAttentionConfig& config,
                                 const MultiHeadAttentionConfig& layer)
    : config_(checked(config, layer)),
      layer_(layer),
      rotary_(layer.rotary == nullptr || config.rope == 0 ? nullptr
                                                          : layer.rotary->of_heads(config.rope)),
      query_down_(two_queries() ? std::optional<Linear>(
                                      std::in_place, parameters, name + ".query_down",
                                      layer.d_model, config.query_rank, layer.bias, layer.deviation)
                                : std::nullopt),
      query_norm_(two_queries()
                      ? std::optional<Norm>(std::in_place, parameters, name + ".query_norm",
                                            NormKind::kRms, config.query_rank, kEpsilon)
                      : std::nullopt),
      query_(parameters, name + (two_queries() ? ".query_up" : ".query"),
             two_queries() ? config.query_rank : layer.d_model, heads() * key_width(),
             /*bias=*/false, layer.deviation),
      key_down_(parameters, name + ".key_down", layer.d_model, low_width(), layer.bias,
                layer.deviation),
      key_norm_(parameters, name + ".key_norm", NormKind::kRms, config.rank, kEpsilon),
      key_up_(parameters, name + ".key_up", config.rank, heads() * up_width(), /*bias=*/false,
              layer.deviation),
      out_(parameters, name + ".out", heads() * config.value, layer.d_model, layer.output_bias,
           layer.output_deviation, Role::kBranchOutput),
      core_(core_config(config)) {
  key_up_.weight().packable = false;  // the absorbed form reads it head by head
}

AttentionShape LatentAttention::shape(const Pass& pass) const {
  return {.batch = pass.batch,
          .heads = heads(),
          .kv_heads = heads(),
          .m = pass.length,
          .n = pass.length,
          .d = key_width(),
          .e = config_.value,
          .causal = layer_.causal,
          .key_lengths = pass.lengths,
          .dropout = pass.training && layer_.dropout > 0.0F,
          .globals = pass.globals};
}

void LatentAttention::check(const Pass& pass) const {
  require(pass.history_length == 0,
          "[latent] cannot read earlier segments; need attention with a history");
  for_each_run(pass, [&](const Run& run) { core_.check(shape(run.pass)); });
}

Norm::Saved LatentAttention::query_saved(const Kept& kept) const {
  if (kept[kInverse].rows == 0) return {};
  return {kept[kQueryUnit], kept[kInverse].row(0)};
}

Norm::Saved LatentAttention::key_saved(const Kept& kept) const {
  if (kept[kInverse].rows == 0) return {};
  return {kept[kUnit], kept[kInverse].row(1)};
}

Heads LatentAttention::turned(Matrix x, std::size_t batch, std::size_t count) const {
  const Heads all = Heads::from_columns(x, batch, count);
  return channels(all, all.d - config_.rope, config_.rope);
}

void LatentAttention::take_low(std::size_t rows, Arena& arena, Kept& kept) const {
  kept[kQueryLow] = arena.matrix(rows, config_.query_rank);
  kept[kQueries] = arena.matrix(rows, query_.out());
  kept[kLow] = arena.matrix(rows, low_width());
}

Kept LatentAttention::save(const Pass& pass, Arena& arena) const {
  const std::size_t rows = pass.rows();
  Kept saved;
  take_low(rows, arena, saved);
  saved[kExpanded] = arena.matrix(rows, heads() * (key_width() + config_.value));
  saved[kCombined] = arena.matrix(rows, out_.in());
  saved[kLogSums] = arena.matrix(heads(), rows);
  saved[kQueryUnit] = arena.matrix(rows, config_.query_rank);
  saved[kUnit] = arena.matrix(rows, config_.rank);
  saved[kInverse] = arena.matrix(2, rows);
  return saved;
}

void LatentAttention::project(ConstMatrix x, const Kept& kept) const {
  if (two_queries()) {
    query_down_->forward(x, kept[kQueryLow]);
    query_norm_->forward(kept[kQueryLow], kept[kQueryLow], query_saved(kept));
    query_.forward(kept[kQueryLow], kept[kQueries]);
  } else {
    query_.forward(x, kept[kQueries]);
  }
  key_down_.forward(x, kept[kLow]);
  const Matrix c = latent(kept[kLow]);
  key_norm_.forward(c, c, key_saved(kept));
}

void LatentAttention::rotate(const Pass& pass, const Kept& kept, std::size_t first,
                             bool inverse) const {
  if (rotary_ == nullptr) return;
  rotary_->apply(turned(kept[kQueries], pass.batch, heads()), first, inverse);
  rotary_->apply(turned(kept[kLow], pass.batch, 1), first, inverse);
}

void LatentAttention::rotate_runs(const Pass& pass, const Kept& kept, bool inverse) const {
  for_each_run(pass, [&](const Run& run) {
    Kept own;
    own[kQueries] = run.rows(kept[kQueries]);
    own[kLow] = run.rows(kept[kLow]);
    rotate(run.pass, own, 0, inverse);
  });
}

void LatentAttention::expand(ConstMatrix low, Matrix expanded, Arena& arena) const {
  const Arena::Frame frame(arena);
  const Matrix up = arena.matrix(low.rows, key_up_.out());
  key_up_.forward(latent(low), up);
  const Heads from = Heads::from_columns(up, 1, heads());
  const Heads to = Heads::from_columns(expanded, 1, heads());
  copy(channels(from, 0, config_.nope), channels(to, 0, config_.nope));
  copy(channels(from, config_.nope, config_.value), channels(to, key_width(), config_.value));
  if (config_.rope == 0) return;
  const ConstHeads shared =
      ConstHeads::from_columns(low.slice_cols(config_.rank, config_.rope), 1, 1);
  copy(repeated(shared, heads()), channels(to, config_.nope, config_.rope));
}

AttentionInputs LatentAttention::inputs(const Pass& pass, Matrix queries, Matrix expanded) const {
  const Heads all = Heads::from_columns(expanded, pass.batch, heads());
  AttentionInputs in;
  in.q = Heads::from_columns(queries, pass.batch, heads());
  in.k = channels(all, 0, key_width());
  in.v = channels(all, key_width(), config_.value);
  in.mask.causal = layer_.causal;
  in.mask.globals = pass.globals;
  in.mask.key_lengths = pass.lengths;
  if (pass.training) in.dropout = {layer_.dropout, derive(pass.key, "attention")};
  return in;
}

void LatentAttention::forward(const BranchForward& call) const {
  const Pass& pass = call.pass;
  Arena& arena = call.arena;
  const Arena::Frame frame(arena);
  Kept kept;
  if (call.saved != nullptr) {
    kept = *call.saved;
  } else {
    take_low(pass.rows(), arena, kept);
    kept[kCombined] = arena.matrix(pass.rows(), out_.in());
  }
  project(call.x, kept);
  if (call.beside.cache != nullptr) {
    decode(call, kept);
  } else {
    if (call.saved == nullptr) {
      kept[kExpanded] = arena.matrix(pass.rows(), heads() * (key_width() + config_.value));
    }
    rotate_runs(pass, kept, /*inverse=*/false);
    expand(kept[kLow], kept[kExpanded], arena);
    for_each_run(pass, [&](const Run& run) {
      const Matrix sums = kept[kLogSums];
      const std::size_t own = sums.rows * run.pass.rows();
      core_.forward({inputs(run.pass, run.rows(kept[kQueries]), run.rows(kept[kExpanded])),
                     combined(run.pass, run.rows(kept[kCombined])),
                     {sums.data + sums.rows * run.row, own},
                     arena});
    });
  }
  out_.forward(kept[kCombined], call.y);
}

std::uint64_t LatentAttention::expanded_maccs(std::size_t m, std::size_t n) const {
  const std::uint64_t pairs = m * n - m * (m - 1) / 2;
  return heads() * (n * config_.rank * up_width() + pairs * (key_width() + config_.value));
}

std::uint64_t LatentAttention::absorbed_maccs(std::size_t m, std::size_t n) const {
  const std::uint64_t pairs = m * n - m * (m - 1) / 2;
  return heads() * (m * config_.rank * up_width() + pairs * (low_width() + config_.rank));
}

// With a = rank·(κ + value), g = 2·rank − κ − value and t = m·(m − 1)/2, expanding needs no more
// where a·(n − m) ≤ g·(m·n − t).
std::size_t LatentAttention::most_expanded(std::size_t m) const {
  constexpr std::size_t kAll = DecodeCache::kAll;
  if (config_.form != LatentForm::kAuto) return config_.form == LatentForm::kExpanded ? kAll : 0;
  if (2 * config_.rank < up_width()) return 0;
  const std::size_t a = config_.rank * up_width();
  const std::size_t g = 2 * config_.rank - up_width();
  if (a <= g * m) return kAll;
  return (a * m - g * (m * (m - 1) / 2)) / (a - g * m);
}

void LatentAttention::size_cache(std::size_t /*context*/, DecodeCache& cache) const {
  const std::size_t each = cache.capacity * low_width();
  cache.floats = cache.batch * each;
  cache.parts[0] = {.each = each, .token = low_width()};
}

Heads LatentAttention::remembered(const DecodeCache& cache, std::size_t tokens) const {
  return Heads(cache.data, cache.batch, 1, cache.capacity, low_width()).first(tokens);
}

void LatentAttention::decode(const BranchForward& call, const Kept& kept) const {
  const Pass& pass = call.pass;
  const DecodeCache& cache = *call.beside.cache;
  require(decodes(), "[latent] cannot decode token by token; need causal self-attention");
  require(cache.used + pass.length <= cache.capacity,
          "[decode] {} tokens do not fit behind {} in a cache of {}", pass.length, cache.used,
          cache.capacity);
  rotate(pass, kept, cache.used, /*inverse=*/false);
  const std::size_t n = cache.used + pass.length;
  copy(Heads::from_columns(kept[kLow], pass.batch, 1),
       remembered(cache, n).slice(cache.used, pass.length));
  const std::size_t most = most_expanded(pass.length);
  if (n <= most) return decode_expanded(call, kept, n);
  if (most >= pass.length) {
    // Memory is booked for the first and the last position, so later ones take what any before took.
    const Dry dry;
    const Listener::Mute mute;
    decode_expanded(call, kept, most);
  }
  decode_absorbed(call, kept, n);
}

void LatentAttention::decode_expanded(const BranchForward& call, const Kept& kept,
                                      std::size_t n) const {
  const Pass& pass = call.pass;
  const DecodeCache& cache = *call.beside.cache;
  Arena& arena = call.arena;
  const Arena::Frame frame(arena);
  const std::size_t rows = pass.batch * n;
  const Matrix expanded = arena.matrix(rows, heads() * (key_width() + config_.value));
  Matrix low(cache.data, n, low_width());
  if (pass.batch > 1) {  // sequences lie apart in the cache
    low = arena.matrix(rows, low_width());
    copy(remembered(cache, n), Heads::from_columns(low, pass.batch, 1));
  }
  expand(low, expanded, arena);
  core_.forward(
      {inputs(pass, kept[kQueries], expanded), combined(pass, kept[kCombined]), {}, arena});
}

namespace {

// Groups into which the heads of one token fall, which are rows beside each other for the core: wide
// enough for its lanes, and some for each core.
std::size_t head_groups(std::size_t batch, std::size_t heads) {
  constexpr std::size_t kLanes = 16;
  constexpr std::size_t kTasks = 16;
  std::size_t groups = 1;
  for (std::size_t g = 2; g * kLanes <= heads && batch * g <= kTasks; ++g) {
    if (heads % g == 0) groups = g;
  }
  return groups;
}

// [batch, heads, 1, d] as [batch, groups, heads/groups, d]: all heads read the same keys.
Heads as_rows(Heads x, std::size_t groups) {
  Heads y = x;
  y.heads = groups;
  y.n = x.heads / groups;
  y.row_stride = x.head_stride;
  y.head_stride = y.n * x.head_stride;
  return y;
}

}  // namespace

void LatentAttention::decode_absorbed(const BranchForward& call, const Kept& kept,
                                      std::size_t n) const {
  const Pass& pass = call.pass;
  Arena& arena = call.arena;
  const Arena::Frame frame(arena);
  const Matrix queries = arena.matrix(pass.rows(), heads() * low_width());
  const Matrix mixed = arena.matrix(pass.rows(), heads() * config_.rank);
  const ConstHeads up(key_up_.weight().matrix().data, 1, heads(), up_width(), config_.rank);
  const Heads q = Heads::from_columns(kept[kQueries], 1, heads());
  const Heads to = Heads::from_columns(queries, 1, heads());
  gemm_heads(channels(q, 0, config_.nope), up.first(config_.nope), /*transpose_w=*/false,
             channels(to, 0, config_.rank));
  if (config_.rope > 0) {
    copy(channels(q, config_.nope, config_.rope), channels(to, config_.rank, config_.rope));
  }
  // The heads of one token are rows that see the same keys; of a few tokens, one after the other.
  const bool few = pass.length <= kFewQueries;
  const std::size_t step = few ? 1 : pass.length;
  for (std::size_t at = 0; at < pass.length; at += step) {
    Heads y = Heads::from_columns(mixed, pass.batch, heads()).slice(at, step);
    Heads all = Heads::from_columns(queries, pass.batch, heads()).slice(at, step);
    if (few) {
      const std::size_t groups = head_groups(pass.batch, heads());
      y = as_rows(y, groups);
      all = as_rows(all, groups);
    }
    AttentionInputs in;
    in.q = all;
    in.k = remembered(*call.beside.cache, n - pass.length + at + step);
    in.v = channels(in.k, 0, config_.rank);
    in.mask.causal = !few;
    core_.forward({in, y, {}, arena});
  }
  gemm_heads(Heads::from_columns(mixed, 1, heads()), up.slice(config_.nope, config_.value),
             /*transpose_w=*/true, Heads::from_columns(kept[kCombined], 1, heads()));
}

Kept LatentAttention::backward(const BranchBackward& call) const {
  const Pass& pass = call.pass;
  const std::size_t rows = pass.rows();
  Arena& arena = call.arena;
  Kept signals;
  take_low(rows, arena, signals);
  signals[kExpanded] = arena.matrix(rows, key_up_.out());
  {
    const Arena::Frame frame(arena);
    const Matrix dkeys = arena.matrix(rows, query_.out());
    attend_backward(call, dkeys, signals);
    const Heads from = Heads::from_columns(dkeys, 1, heads());
    copy(channels(from, 0, config_.nope),
         channels(Heads::from_columns(signals[kExpanded], 1, heads()), 0, config_.nope));
    if (config_.rope > 0) {
      sum_heads(channels(from, config_.nope, config_.rope), turned(signals[kLow], 1, 1));
    }
  }
  rotate_runs(pass, signals, /*inverse=*/true);
  const Matrix dlatent = latent(signals[kLow]);
  key_up_.backward(signals[kExpanded], dlatent);
  norm_back(key_norm_, key_saved(call.saved), dlatent);
  key_down_.backward(signals[kLow], call.dx);
  if (!two_queries()) {
    query_.backward(signals[kQueries], call.dx, /*add=*/true);
    return signals;
  }
  query_.backward(signals[kQueries], signals[kQueryLow]);
  norm_back(*query_norm_, query_saved(call.saved), signals[kQueryLow]);
  query_down_->backward(signals[kQueryLow], call.dx, /*add=*/true);
  return signals;
}

void LatentAttention::attend_backward(const BranchBackward& call, Matrix dkeys,
                                      const Kept& signals) const {
  const Kept& saved = call.saved;
  Arena& arena = call.arena;
  const Arena::Frame frame(arena);
  const Matrix dcombined = arena.matrix(call.pass.rows(), out_.in());
  out_.backward(call.dy, dcombined);
  for_each_run(call.pass, [&](const Run& run) {
    const std::size_t batch = run.pass.batch;
    const Heads dup = Heads::from_columns(run.rows(signals[kExpanded]), batch, heads());
    const Matrix sums = saved[kLogSums];
    core_.backward({inputs(run.pass, run.rows(saved[kQueries]), run.rows(saved[kExpanded])),
                    combined(run.pass, run.rows(saved[kCombined])),
                    combined(run.pass, run.rows(dcombined)),
                    {sums.data + sums.rows * run.row, sums.rows * run.pass.rows()},
                    {.q = Heads::from_columns(run.rows(signals[kQueries]), batch, heads()),
                     .k = Heads::from_columns(run.rows(dkeys), batch, heads()),
                     .v = channels(dup, config_.nope, config_.value)},
                    {},
                    arena});
  });
}

// From the signal of what a norm gave to that of what it read.
void LatentAttention::norm_back(const Norm& norm, const Norm::Saved& saved, Matrix signal) const {
  {
    const Place::Scope scope(meter_name(), Phase::kUpdate);
    norm.accumulate(saved, signal);
  }
  norm.backward(saved, signal, signal, /*add=*/false);
}

void LatentAttention::accumulate(const BranchUpdate& call) const {
  const Kept& saved = call.saved;
  const Kept& signals = call.signals;
  out_.accumulate(saved[kCombined], call.dy);
  key_up_.accumulate(latent(saved[kLow]), signals[kExpanded]);
  key_down_.accumulate(call.x, signals[kLow]);
  if (!two_queries()) return query_.accumulate(call.x, signals[kQueries]);
  query_.accumulate(saved[kQueryLow], signals[kQueries]);
  query_down_->accumulate(call.x, signals[kQueryLow]);
}

}  // namespace longspan
