#include "longspan/compare/capture.h"

#include <algorithm>

#include "longspan/base/error.h"

namespace longspan {

namespace {

// The first `heads` query heads' own part of x, side by side.
std::vector<float> columns(ConstHeads x, std::size_t query_heads, std::size_t heads) {
  std::vector<float> out(x.n * heads * x.d);
  const std::size_t group = query_heads / x.heads;
  for (std::size_t h = 0; h < heads; ++h) {
    const ConstMatrix head = x.head(0, h / group);
    for (std::size_t i = 0; i < x.n; ++i) {
      std::copy_n(head.row_data(i), x.d, out.data() + (i * heads + h) * x.d);
    }
  }
  return out;
}

}  // namespace

CapturedAttention capture_attention(Model& model, std::span<const std::int32_t> tokens,
                                    std::size_t layer, std::size_t heads) {
  const ModelConfig& c = model.config();
  require(layer < c.layers, "[capture] layer {} of {}; need one from 0 to {}", layer, c.layers,
          c.layers - 1);
  require(c.family != Family::kEncoderDecoder, "[capture] an encoder-decoder; need one stack");
  heads = std::min(heads, c.heads);
  CapturedAttention captured;
  captured.shape = {.length = tokens.size(),
                    .heads = heads,
                    .d_head = head_width_of(c),
                    .causal = c.family == Family::kDecoder};
  model.mixer(layer).set_observer([&](const AttentionInputs& in) {
    captured.tensors.q = columns(in.q, c.heads, heads);
    captured.tensors.k = columns(in.k, c.heads, heads);
    captured.tensors.v = columns(in.v, c.heads, heads);
  });
  model.logits({.batch = 1, .length = tokens.size(), .tokens = tokens});
  model.mixer(layer).set_observer({});
  const std::size_t seen = tokens.size() * heads * captured.shape.d_head;
  require(
      captured.tensors.q.size() == seen && captured.tensors.k.size() == seen,
      "[capture] layer {} does not attend from all {} tokens to all of them; need a model whose "
      "layer does",
      layer, tokens.size());
  // Mechanisms that read the layer's input are given something of its size.
  captured.tensors.x = captured.tensors.q;
  return captured;
}

}  // namespace longspan
