#include "longspan/attention/feature/linear_attention.h"

#include <cmath>

#include "longspan/base/error.h"
#include "longspan/base/number.h"

namespace longspan {

FeatureShape feature_shape(const AttentionShape& s) {
  return {s.batch, s.heads, s.kv_heads, s.m, s.n, s.d, s.e, s.causal, s.key_lengths};
}

FeatureTensors feature_tensors(const AttentionInputs& in) {
  return {in.q, in.k, in.v, in.mask.causal, in.mask.key_lengths};
}

AttentionCost attention_cost(const FeatureCost& c) {
  AttentionCost cost;
  cost.forward = c.forward;
  cost.backward = c.backward;
  cost.saved = c.saved;
  cost.forward_scratch = c.forward_scratch;
  cost.backward_scratch = c.backward_scratch;
  return cost;
}

LinearAttention::LinearAttention(const LinearAttentionConfig& config)
    : Attention(can(config)),
      softmax_(config.features == LinearFeatures::kSoftmax),
      epsilon_(config.epsilon) {}

Abilities LinearAttention::can(const LinearAttentionConfig& config) {
  check_numbers(kName, config);
  const bool elu = config.features == LinearFeatures::kElu;
  return {.causal = elu, .cross = true, .key_lengths = true, .grouped_heads = true, .decode = elu};
}

FeatureMap LinearAttention::map(std::size_t d) const {
  FeatureMap map;
  if (softmax_) {
    map.kind = FeatureKind::kExp;
    map.over_sequence = true;
    map.gain = 1.0F / std::sqrt(static_cast<float>(d));
  } else {
    map.denominator_epsilon = epsilon_;
  }
  return map;
}

AttentionCost LinearAttention::cost(const AttentionShape& s) const {
  return attention_cost(feature_cost(map(s.d), feature_shape(s)));
}

std::size_t LinearAttention::state_floats(const AttentionShape& s) const {
  return softmax_ ? 0 : feature_decode_floats(map(s.d), feature_shape(s));
}

AttentionCost LinearAttention::decode_cost(const AttentionShape& s) const {
  return attention_cost(feature_decode_cost(map(s.d), feature_shape(s)));
}

void LinearAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  feature_forward(map(in.q.d), feature_tensors(in), y, saved, arena);
}

void LinearAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  Arena& arena = call.arena;
  feature_backward(map(in.q.d), feature_tensors(in), y, dy, saved, grad.q, grad.k, grad.v, arena);
}

void LinearAttention::run_decode(const AttentionInputs& in, Heads y, std::span<float> state,
                                 Arena& arena) const {
  feature_decode(map(in.q.d), feature_tensors(in), y, state, arena);
}

}  // namespace longspan
