#include "longspan/attention/attention.h"

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/base/sizes.h"

namespace longspan {

namespace {

// Σ_{t=1}^{x} ⌈min(t, length)/tile⌉, 0 for x ≤ 0: the queries of a causal sequence, one by one.
std::uint64_t causal_tiles(std::int64_t x, std::uint64_t length, std::uint64_t tile) {
  if (x <= 0) return 0;
  const auto queries = static_cast<std::uint64_t>(x);
  const std::uint64_t rising = std::min(queries, length);
  const std::uint64_t whole = rising / tile;
  return tile * whole * (whole + 1) / 2 + (rising % tile) * (whole + 1) +
         (queries - rising) * (divide_up(length, tile));
}

// Σ_{t=0}^{x−1} ⌊t/tile⌋, 0 for x ≤ 0: whole tiles before the first key of each query.
std::uint64_t tiles_before(std::int64_t x, std::uint64_t tile) {
  if (x <= 0) return 0;
  const std::uint64_t whole = static_cast<std::uint64_t>(x) / tile;
  const std::uint64_t rest = static_cast<std::uint64_t>(x) % tile;
  return whole == 0 ? 0 : tile * (whole * (whole - 1) / 2) + rest * whole;
}

void check_sizes(std::string_view who, const AttentionShape& s) {
  require(s.batch > 0 && s.heads > 0 && s.kv_heads > 0,
          "[{}] batch {}, {} heads and {} key heads; need at least one of each", who, s.batch,
          s.heads, s.kv_heads);
  require(s.heads % s.kv_heads == 0, "[{}] {} heads over {} key heads; need a divisor", who,
          s.heads, s.kv_heads);
  require(s.m > 0 && s.n > 0, "[{}] {} queries and {} keys; need at least one of each", who, s.m,
          s.n);
  require(s.d > 0 && s.e > 0, "[{}] keys are {} wide and values {}; need at least 1", who, s.d,
          s.e);
  constexpr std::size_t kMostElements = std::size_t{1} << 48U;
  require(size_product(s.batch, s.heads, std::max(s.m, s.n), std::max(s.d, s.e)) <= kMostElements,
          "[{}] {} × {} heads of {} queries and {} keys, {} and {} wide; need at most {} numbers",
          who, s.batch, s.heads, s.m, s.n, s.d, s.e, kMostElements);
  require(s.key_lengths.empty() || s.key_lengths.size() == s.batch,
          "[{}] {} key lengths for a batch of {}", who, s.key_lengths.size(), s.batch);
  for (const std::int32_t length : s.key_lengths) {
    require(length >= 0 && static_cast<std::size_t>(length) <= s.n,
            "[{}] a key length is {}; need 0 to {}", who, length, s.n);
  }
}

void check_abilities(std::string_view who, const Abilities& a, const AttentionShape& s) {
  require(a.causal || !s.causal, "[{}] cannot be causal{}{}", who, a.not_causal.empty() ? "" : ": ",
          a.not_causal);
  // The last of n tokens, against a cache of their keys and values.
  const bool decodes = a.decode && s.causal && s.m < s.n;
  require(a.cross || s.m == s.n || decodes || (a.pooled && s.m < s.n),
          "[{}] {} queries and {} keys; it needs equal lengths", who, s.m, s.n);
  require(a.key_lengths || s.key_lengths.empty(), "[{}] cannot mask padding by key lengths", who);
  require(a.bias || !s.bias, "[{}] cannot add a bias to its scores", who);
  require(a.dropout || !s.dropout, "[{}] cannot drop attention weights", who);
  require(a.grouped_heads || s.heads == s.kv_heads,
          "[{}] {} heads over {} key heads; it needs as many key heads", who, s.heads, s.kv_heads);
  require(a.value_heads || s.value_heads == 0, "[{}] {} heads of values for {} of keys", who,
          s.value_heads, s.kv_heads);
}

template <class A, class B>
void check_same(std::string_view who, std::string_view what, const A& a, std::string_view like,
                const B& b) {
  require(a.batch == b.batch && a.heads == b.heads && a.n == b.n && a.d == b.d,
          "[{}] {} is [{}, {}, {}, {}]; {} is [{}, {}, {}, {}]", who, what, a.batch, a.heads, a.n,
          a.d, like, b.batch, b.heads, b.n, b.d);
}

void check_output(const Attention& mechanism, const ConstHeads& y, const AttentionShape& s) {
  const Attention::Output need = mechanism.output(s);
  require(y.batch == s.batch && y.heads == need.heads && y.n == s.m && y.d == need.width,
          "[{}] the output is [{}, {}, {}, {}]; need [{}, {}, {}, {}]", mechanism.name(), y.batch,
          y.heads, y.n, y.d, s.batch, need.heads, s.m, need.width);
}

void check_inputs(std::string_view who, const Abilities& able, const AttentionInputs& in) {
  const AttentionShape s = shape_of(in);
  check_sizes(who, s);
  require(in.k.batch == s.batch && in.v.batch == s.batch,
          "[{}] batches of {} queries, {} keys and {} values; need equal ones", who, s.batch,
          in.k.batch, in.v.batch);
  require(in.k.d == s.d, "[{}] keys are {} wide; queries are {}", who, in.k.d, s.d);
  require(in.v.n == s.n, "[{}] {} values for {} keys", who, in.v.n, s.n);
  require(in.dropout.rate >= 0.0F && in.dropout.rate < 1.0F,
          "[{}] dropout rate is {}; need 0 ≤ rate < 1", who, in.dropout.rate);
  check_abilities(who, able, s);
  require(able.boolean_mask || !in.mask.visible, "[{}] cannot apply a boolean mask", who);
}

}  // namespace

AttentionShape shape_of(const AttentionInputs& in) {
  AttentionShape s;
  s.batch = in.q.batch;
  s.heads = in.q.heads;
  s.kv_heads = in.k.heads;
  s.value_heads = in.v.heads == in.k.heads ? 0 : in.v.heads;
  s.m = in.q.n;
  s.n = in.k.n;
  s.d = in.q.d;
  s.e = in.v.d;
  s.causal = in.mask.causal;
  s.key_lengths = in.mask.key_lengths;
  s.bias = static_cast<bool>(in.mask.bias);
  s.dropout = in.dropout.active();
  s.history_length = in.history.rows / std::max<std::size_t>(1, in.q.batch);
  s.globals = in.mask.globals;
  s.notes = !in.notes.empty();
  return s;
}

std::uint64_t visible_tiles(const AttentionShape& s, std::size_t tile, const Reach& reach) {
  const std::size_t after = s.causal ? 0 : reach.after;
  std::uint64_t total = 0;
  for (std::size_t b = 0; b < s.batch; ++b) {
    const std::uint64_t length =
        s.key_lengths.empty() ? s.n : static_cast<std::uint64_t>(s.key_lengths[b]);
    // Places [first, last) see something.
    const auto first = static_cast<std::int64_t>(s.n) - static_cast<std::int64_t>(s.m);
    auto last = static_cast<std::int64_t>(s.n);
    if (reach.before < s.n) {
      last = std::clamp(static_cast<std::int64_t>(length + reach.before), first, last);
      const auto before = static_cast<std::int64_t>(reach.before);
      total -= tiles_before(last - before, tile) - tiles_before(first - before, tile);
    }
    if (after >= s.n) {
      total += static_cast<std::uint64_t>(last - first) * divide_up(length, tile);
    } else {
      const auto ahead = static_cast<std::int64_t>(after);
      total += causal_tiles(last + ahead, length, tile) - causal_tiles(first + ahead, length, tile);
    }
  }
  return total;
}

std::uint64_t visible_pairs(const AttentionShape& shape) { return visible_tiles(shape, 1); }

std::uint64_t real_keys(const AttentionShape& s) {
  if (s.key_lengths.empty()) return std::uint64_t{s.batch} * s.n;
  std::uint64_t total = 0;
  for (const std::int32_t length : s.key_lengths) total += static_cast<std::uint64_t>(length);
  return total;
}

Attention::Output Attention::output(const AttentionShape& s) const {
  return {std::max(s.heads, s.value_heads), s.e};
}

void Attention::check(const AttentionShape& shape) const {
  check_sizes(name(), shape);
  check_abilities(name(), abilities(), shape);
  check_more(shape);
  check_memory(shape);
}

void Attention::heard(Op op, const AttentionShape& s, const Work& work) const {
  if (Listener* listener = Listener::current()) {
    listener->hear({.op = op,
                    .variant = name(),
                    .rows = s.batch * s.heads * s.m,
                    .cols = s.e,
                    .inner = s.n,
                    .work = work});
  }
}

void Attention::hand_over(Op op, const AttentionShape& s, Work AttentionCost::*work,
                          Arena& arena) const {
  const AttentionCost sizes = cost(s);
  arena.take<std::byte>(op == Op::kAttention ? sizes.forward_scratch : sizes.backward_scratch);
  heard(op, s, sizes.*work);
}

bool Attention::dry() const {
  if (Dry::on()) return true;
  if (parameters_ != nullptr) parameters_->require_allocated(name());
  return false;
}

void Attention::forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  check_inputs(name(), abilities(), in);
  const AttentionShape s = shape_of(in);
  check_more(s);
  check_output(*this, call.y, s);
  require(call.saved.empty() || call.saved.size() == cost(s).saved,
          "[{}] saves {} floats; {} are given", name(), cost(s).saved, call.saved.size());
  require(in.notes.empty() || (s.causal && in.notes.size() >= note_floats(s)),
          "[{}] notes of {} floats; need {} and a causal mask", name(), in.notes.size(),
          note_floats(s));
  const Arena::Frame frame(call.arena);
  if (dry()) return hand_over(Op::kAttention, s, &AttentionCost::forward, call.arena);
  run_forward(call);
}

void Attention::backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const AttentionGradients& grad = call.grad;
  check_inputs(name(), abilities(), in);
  const AttentionShape s = shape_of(in);
  check_more(s);
  check_output(*this, call.y, s);
  check_same(name(), "dy", call.dy, "y", call.y);
  check_same(name(), "dq", grad.q, "q", in.q);
  if (!abilities().shared_qk) check_same(name(), "dk", grad.k, "k", in.k);
  check_same(name(), "dv", grad.v, "v", in.v);
  require(!grad.bias || in.mask.bias, "[{}] a gradient of the bias is asked for; there is no bias",
          name());
  require(in.notes.empty(), "[{}] notes on earlier tokens; backward needs all of them", name());
  const AttentionCost sizes = cost(s);
  require(call.saved.size() == sizes.saved, "[{}] saves {} floats; {} are given", name(),
          sizes.saved, call.saved.size());
  require(call.signals.size() == sizes.signals, "[{}] leaves {} floats of signals; {} are given",
          name(), sizes.signals, call.signals.size());
  const Arena::Frame frame(call.arena);
  if (dry()) return hand_over(Op::kAttentionBackward, s, &AttentionCost::backward, call.arena);
  run_backward(call);
}

void Attention::accumulate(const AttentionInputs& in, std::span<const float> saved,
                           std::span<const float> signals) const {
  if (dry()) {
    const AttentionShape s = shape_of(in);
    return heard(Op::kAttentionUpdate, s, cost(s).update);
  }
  run_accumulate(in, saved, signals);
}

void Attention::decode(const AttentionInputs& in, Heads y, std::span<float> state,
                       Arena& arena) const {
  check_inputs(name(), abilities(), in);
  const AttentionShape s = shape_of(in);
  check_more(s);
  check_output(*this, y, s);
  require(!state.empty() && state.size() == state_floats(s),
          "[{}] decodes with a state of {} floats; {} are given", name(), state_floats(s),
          state.size());
  const Arena::Frame frame(arena);
  if (dry()) {
    const AttentionCost sizes = decode_cost(s);
    arena.take<std::byte>(sizes.forward_scratch);
    return heard(Op::kAttention, s, sizes.forward);
  }
  run_decode(in, y, state, arena);
}

void Attention::run_decode(const AttentionInputs& /*in*/, Heads /*y*/, std::span<float> /*state*/,
                           Arena& /*arena*/) const {
  throw Error(fmt::format("[{}] has no decode state; use a cache of keys and values", name()));
}

}  // namespace longspan
