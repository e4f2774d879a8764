#include "longspan/attention/pattern/window.h"

#include "longspan/attention/pattern/window_pattern.h"
#include "longspan/base/error.h"
#include "longspan/base/number.h"

namespace longspan {

namespace {

WindowPattern pattern_of(const WindowConfig& config, const AttentionShape& shape) {
  const bool one_sided = shape.causal || !config.two_sided;
  const std::size_t half = config.window / 2;
  return {shape, one_sided ? config.window : half, one_sided ? 0 : half, config.dilation};
}

}  // namespace

Abilities WindowAttention::can(const WindowConfig& config) {
  check_numbers(kName, config);
  return {
      .causal = true, .key_lengths = true, .dropout = true, .grouped_heads = true, .decode = true};
}

AttentionCost WindowAttention::cost(const AttentionShape& shape) const {
  return sparse_cost(pattern_of(config_, shape));
}

std::string_view WindowAttention::reason(const AttentionShape& s, std::size_t /*head*/,
                                         std::size_t i, std::size_t j) const {
  const WindowPattern pattern = pattern_of(config_, s);
  const std::size_t position = i + pattern.offset();
  const std::size_t distance = position > j ? position - j : j - position;
  const std::size_t reach = j > position ? pattern.after() : pattern.before();
  const bool real = position < pattern.keys(0) && j < pattern.keys(0);
  return real && distance % config_.dilation == 0 && distance / config_.dilation <= reach ? "window"
                                                                                          : "";
}

void WindowAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  sparse_forward(pattern_of(config_, shape_of(in)), SparseInputs::of(in), y, saved, arena);
}

void WindowAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  Arena& arena = call.arena;
  sparse_backward(pattern_of(config_, shape_of(in)), SparseInputs::of(in), y, dy, saved,
                  {grad.q, grad.k, grad.v, {}}, arena);
}

}  // namespace longspan
