#include "longspan/compare/attention_run.h"

#include <algorithm>

#include "longspan/attention/registry.h"
#include "longspan/base/parallel.h"

namespace longspan {

namespace {

std::vector<float> normal(std::size_t count, RandomKey key) {
  std::vector<float> values(count);
  parallel_ranges(count, 65536, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) values[i] = random_normal(key, i);
  });
  return values;
}

AttentionShape shape_of(const AttentionCase& c) {
  return {.batch = c.batch,
          .heads = c.heads,
          .kv_heads = c.heads,
          .m = c.length,
          .n = c.length,
          .d = c.d_head,
          .e = c.d_head,
          .causal = c.causal};
}

AttentionLayout layout_of(const AttentionCase& c) {
  return {.d_model = c.width(),
          .heads = c.heads,
          .kv_heads = c.heads,
          .d_head = c.d_head,
          .max_length = c.length};
}

std::size_t scratch_of(const AttentionCase& c, const AttentionCost& cost) {
  return c.backward ? std::max(cost.forward_scratch, cost.backward_scratch) : cost.forward_scratch;
}

}  // namespace

AttentionTensors random_tensors(const AttentionCase& c, std::uint64_t seed) {
  const std::size_t count = c.rows() * c.width();
  return {normal(count, derive(seed, "q")), normal(count, derive(seed, "k")),
          normal(count, derive(seed, "v")), normal(count, derive(seed, "x"))};
}

AttentionSizes attention_sizes(const AttentionCase& c) {
  const LoneAttention attention(c.attention, layout_of(c));
  const Parameters& parameters = attention.parameters();
  const AttentionShape shape = shape_of(c);
  attention->check(shape);
  AttentionSizes sizes{.cost = attention->cost(shape),
                       .parameters = parameters.count(),
                       .constants = parameters.total() - parameters.count()};
  const std::size_t tensor = c.rows() * c.width();
  std::size_t floats = 5 * tensor + 2 * sizes.parameters + sizes.constants;
  if (c.backward) {
    floats += 4 * tensor + sizes.cost.saved + sizes.cost.signals;
    if (attention.streams().calls(Source::kInput)) floats += tensor;
  }
  sizes.bytes = sizeof(float) * floats + scratch_of(c, sizes.cost);
  return sizes;
}

AttentionRun::AttentionRun(const AttentionCase& c, AttentionTensors& tensors)
    : case_(c), attention_(c.attention, layout_of(c)), y_(c.rows() * c.width()) {
  attention_->check(shape_of(c));
  attention_.allocate();
  in_.q = heads(tensors.q);
  in_.k = shared_qk() ? in_.q : ConstHeads(heads(tensors.k));
  in_.v = heads(tensors.v);
  in_.mask.causal = c.causal;
  if (reads_input()) in_.x = ConstMatrix(tensors.x.data(), c.rows(), c.width());
  const AttentionCost cost = attention_->cost(shape_of(c));
  if (c.backward) {
    dy_ = normal(y_.size(), derive(1, "dy"));
    dq_.resize(y_.size());
    dk_.resize(y_.size());
    dv_.resize(y_.size());
    if (reads_input()) dx_.resize(y_.size());
    saved_.resize(cost.saved);
    signals_.resize(cost.signals);
  }
  arena_ = Arena(scratch_of(c, cost));
}

Heads AttentionRun::heads(std::vector<float>& data) const {
  return Heads::from_columns(Matrix(data.data(), case_.rows(), case_.width()), case_.batch,
                             case_.heads);
}

void AttentionRun::run() {
  attention_->forward({in_, heads(y_), saved_, arena_});
  if (!case_.backward) return;
  AttentionGradients to{.q = heads(dq_), .k = heads(dk_), .v = heads(dv_)};
  if (!dx_.empty()) to.x = Matrix(dx_.data(), case_.rows(), case_.width());
  attention_->backward({in_, heads(y_), heads(dy_), saved_, to, signals_, arena_});
  attention_->accumulate(in_, saved_, signals_);
}

}  // namespace longspan
