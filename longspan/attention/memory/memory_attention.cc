#include "longspan/attention/memory/memory_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "longspan/base/cost.h"
#include "longspan/base/error.h"
#include "longspan/base/number.h"
#include "longspan/base/parallel.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

namespace {

constexpr std::size_t kJoinedRows = 256;  // queries that a task joins

// Two parts of one softmax, with their sums in base 2; ∞ stands for an empty one.
void join(std::span<float> y, std::span<const float> other, float& level, float more) {
  constexpr float kEmpty = std::numeric_limits<float>::infinity();
  const float mine = level == kEmpty ? -kEmpty : level;
  const float top = std::max(mine, more);
  const float sum = std::exp2(mine - top) + std::exp2(more - top);
  const float total = top + std::log2(sum);
  const float a = std::exp2(mine - total);
  const float b = std::exp2(more - total);
  for (std::size_t c = 0; c < y.size(); ++c) y[c] = a * y[c] + b * other[c];
  level = total;
}

Work join_work(const AttentionShape& s) {
  return flops(Kind::kSoftmax, s.batch * s.heads * s.m * (2 * s.e + 6));
}

Work add_work(const AttentionShape& s) {
  return flops(Kind::kAdd, std::uint64_t{s.batch} * s.heads * s.m * s.d);
}

std::size_t rows_of(const AttentionShape& s) { return s.batch * s.heads * s.m; }

template <class Body>
void each_row(const AttentionShape& s, const Body& body) {
  parallel_ranges(rows_of(s), kJoinedRows, [&](std::size_t first, std::size_t last) {
    for (std::size_t row = first; row < last; ++row) {
      body(row / s.m / s.heads, row / s.m % s.heads, row % s.m, row);
    }
  });
}

}  // namespace

Abilities MemoryAttention::can(const MemoryConfig& config) {
  check_numbers(kName, config);
  Abilities able = Abilities::all();
  able.exact = false;  // it is, over more than the sequence
  able.cross = false;
  return able;
}

MemoryAttention::MemoryAttention(const MemoryConfig& config, const AttentionSite& site)
    : Attention(can(config)), config_(config) {
  const Initializer draw = Initializer::normal(1.0F / std::sqrt(static_cast<float>(site.d_head)));
  const std::size_t rows = site.heads * config_.tokens;
  keys_ = &site.parameters.declare(site.name + ".memory.keys", rows, site.d_head, draw);
  values_ = &site.parameters.declare(site.name + ".memory.values", rows, site.d_head, draw);
}

// The memory as the keys and values of every sequence: heads of their own, no mask.
AttentionShape MemoryAttention::memory_shape(const AttentionShape& s) const {
  AttentionShape t;
  t.batch = s.batch;
  t.heads = t.kv_heads = s.heads;
  t.m = s.m;
  t.n = config_.tokens;
  t.d = s.d;
  t.e = s.e;
  t.dropout = s.dropout;
  return t;
}

AttentionInputs MemoryAttention::memory_inputs(const AttentionInputs& in) const {
  require(keys_ != nullptr && keys_->cols == in.q.d && in.v.d == in.q.d,
          "[memory] keys are {} wide and values {}; its memory was made for other widths", in.q.d,
          in.v.d);
  AttentionInputs memory;
  memory.q = in.q;
  memory.k = {keys_->value.data(), in.q.batch, in.q.heads, config_.tokens, in.q.d};
  memory.v = {values_->value.data(), in.q.batch, in.q.heads, config_.tokens, in.q.d};
  memory.k.batch_stride = memory.v.batch_stride = 0;
  memory.dropout = in.dropout;
  memory.dropout.key = derive(in.dropout.key, "memory");
  return memory;
}

AttentionCost MemoryAttention::cost(const AttentionShape& s) const {
  const AttentionCost sequence = flash_.cost(s);
  const AttentionCost memory = flash_.cost(memory_shape(s));
  const std::size_t slots = s.batch * s.heads * config_.tokens;
  AttentionCost cost;
  cost.forward = sequence.forward + memory.forward + join_work(s);
  cost.backward = sequence.backward + memory.backward + add_work(s);
  cost.update = flops(Kind::kAdd, slots * (s.d + s.e));
  cost.saved = rows_of(s);
  cost.signals = slots * (s.d + s.e);
  cost.forward_scratch = Arena::bytes_for(rows_of(s)) + Arena::bytes_for(rows_of(s)) +
                         Arena::bytes_for(rows_of(s) * s.e) +
                         std::max(sequence.forward_scratch, memory.forward_scratch);
  cost.backward_scratch = Arena::bytes_for(rows_of(s) * s.d) +
                          std::max(sequence.backward_scratch, memory.backward_scratch);
  return cost;
}

void MemoryAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  const auto levels = arena.take(rows_of(s));
  const auto others = arena.take(rows_of(s));
  const auto other = arena.take(rows_of(s) * s.e);
  const Heads remembered(other.data(), s.batch, s.heads, s.m, s.e);
  flash_.forward({in, y, levels, arena});
  flash_.forward({memory_inputs(in), remembered, others, arena});
  each_row(s, [&](std::size_t b, std::size_t h, std::size_t i, std::size_t row) {
    join(y.head(b, h).row(i), remembered.head(b, h).row(i), levels[row], others[row]);
  });
  report(join_work(s));
  if (!saved.empty()) std::ranges::copy(levels, saved.begin());
}

void MemoryAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  const std::span<float> signals = call.signals;
  Arena& arena = call.arena;
  const AttentionShape s = shape_of(in);
  const std::size_t slots = s.batch * s.heads * config_.tokens;
  const Heads dq(arena.take(rows_of(s) * s.d).data(), s.batch, s.heads, s.m, s.d);
  const Heads dk(signals.data(), s.batch, s.heads, config_.tokens, s.d);
  const Heads dv(signals.data() + slots * s.d, s.batch, s.heads, config_.tokens, s.e);
  flash_.backward({in, y, dy, saved, grad, {}, arena});
  flash_.backward({memory_inputs(in), y, dy, saved, {.q = dq, .k = dk, .v = dv}, {}, arena});
  each_row(s, [&](std::size_t b, std::size_t h, std::size_t i, std::size_t) {
    add_row(dq.head(b, h).row(i), grad.q.head(b, h).row_data(i));
  });
  report(add_work(s));
}

void MemoryAttention::run_accumulate(const AttentionInputs& in, std::span<const float> /*saved*/,
                                     std::span<const float> signals) const {
  const AttentionShape s = shape_of(in);
  const std::size_t each = s.heads * config_.tokens;
  const auto add = [&](std::span<const float> from, std::span<float> to) {
    for (std::size_t i = 0; i < from.size(); ++i) to[i % to.size()] += from[i];
  };
  add(signals.first(s.batch * each * s.d), keys_->gradient);
  add(signals.subspan(s.batch * each * s.d), values_->gradient);
  report(flops(Kind::kAdd, s.batch * each * (s.d + s.e)));
}

}  // namespace longspan
