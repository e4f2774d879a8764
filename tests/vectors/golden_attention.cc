#include "tests/vectors/golden_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"

namespace longspan::golden {

Heads heads_of(std::vector<float>& data, const Shape& shape) {
  require(shape.size() == 4, "[golden] a tensor of shape {}; need [batch, heads, n, d]",
          to_string(shape));
  return {data.data(), shape[0], shape[1], shape[2], shape[3]};
}

AttentionCase::AttentionCase(const Case& golden)
    : q(golden.file().floats("q")),
      k(golden.file().floats("k")),
      v(golden.file().floats("v")),
      upstream(golden.file().floats("upstream")),
      key_lengths(golden.integers("key_lengths")),
      shape_q(golden.file().at("q").shape),
      shape_k(golden.file().at("k").shape),
      shape_v(golden.file().at("v").shape),
      shape_out(golden.file().at("upstream").shape) {
  in.q = heads_of(q, shape_q);
  in.k = heads_of(k, shape_k);
  in.v = heads_of(v, shape_v);
  in.mask.causal = golden.config().value("causal", false);
  const nlohmann::json& lengths = golden.config().value("lengths", nlohmann::json());
  if (lengths.is_array()) key_lengths = lengths.get<std::vector<std::int32_t>>();
  in.mask.key_lengths = key_lengths;
}

namespace {

// Leaves signals for the gradients of the mechanism's own parameters.
std::vector<float> compare_attention(const Attention& attention, AttentionCase& c,
                                     Comparison& comparison) {
  const AttentionCost cost = attention.cost(shape_of(c.in));
  Arena arena(std::max(cost.forward_scratch, cost.backward_scratch));
  std::vector<float> saved(cost.saved);
  std::vector<float> out(c.upstream.size());
  const Heads y = heads_of(out, c.shape_out);
  attention.forward({c.in, y, {}, arena});
  comparison.output("out64", out);
  attention.forward({c.in, y, saved, arena});
  comparison.output("out64", out);

  std::vector<float> dq(c.q.size());
  std::vector<float> dk(c.k.size());
  std::vector<float> dv(c.v.size());
  std::vector<float> signals(cost.signals);
  attention.backward(
      {c.in,
       y,
       heads_of(c.upstream, c.shape_out),
       saved,
       {.q = heads_of(dq, c.shape_q), .k = heads_of(dk, c.shape_k), .v = heads_of(dv, c.shape_v)},
       signals,
       arena});
  comparison.gradient("grad.q", dq);
  comparison.gradient("grad.k", dk);
  comparison.gradient("grad.v", dv);
  return signals;
}

}  // namespace

void run_attention(const Case& golden, const Attention& attention, Comparison& comparison) {
  AttentionCase c(golden);
  compare_attention(attention, c, comparison);
}

void run_sited_attention(const Case& golden, const std::string& specification,
                         std::span<const OwnParameter> parameters, Comparison& comparison) {
  AttentionCase c(golden);
  LoneAttention attention(specification, {.heads = c.in.q.heads,
                                          .kv_heads = c.in.k.heads,
                                          .d_head = c.in.q.d,
                                          .max_length = c.in.k.n});
  attention.allocate();
  for (const OwnParameter& own : parameters) {
    const std::vector<float> theirs = golden.file().floats(std::string(own.theirs));
    const Parameter& p = *attention.parameters().find(own.ours);
    require(theirs.size() == p.size(), "[golden] {} has {} elements; '{}' {}", own.theirs,
            theirs.size(), own.ours, p.size());
    std::ranges::copy(theirs, p.value.begin());
  }
  const std::vector<float> signals = compare_attention(*attention, c, comparison);
  attention->accumulate(c.in, {}, signals);
  for (const OwnParameter& own : parameters) {
    comparison.gradient(fmt::format("grad.{}", own.theirs),
                        attention.parameters().find(own.ours)->gradient);
  }
}

namespace {

// The elements of a parameter that a weight of the reference fills.
struct WeightPart {
  WeightPart(const Parameter& p, const LayerWeight& w)
      : parameter(p),
        first(static_cast<std::ptrdiff_t>(w.first_row * (p.is_vector ? 1 : p.cols))),
        size(w.rows == 0 ? p.size() : w.rows * (p.is_vector ? 1 : p.cols)) {}
  const Parameter& parameter;
  std::ptrdiff_t first;
  std::size_t size;
};

}  // namespace

void compare_layer(const Case& golden, const Branch& layer, Parameters& parameters,
                   std::span<const LayerWeight> weights, Comparison& comparison) {
  const SafetensorsFile& file = golden.file();
  const Shape shape = file.at("x").shape;
  require(shape.size() == 3, "[golden] x is {}; need [batch, n, width]", to_string(shape));
  for (const LayerWeight& w : weights) {
    const std::vector<float> theirs = file.floats("w." + std::string(w.theirs));
    const WeightPart part(*parameters.find(w.ours), w);
    require(theirs.size() == part.size, "[golden] w.{} has {} elements; ours {}", w.theirs,
            theirs.size(), part.size);
    std::ranges::copy(theirs, part.parameter.value.begin() + part.first);
  }
  const std::vector<std::int32_t> lengths = golden.integers("key_lengths");
  Pass pass;
  pass.batch = shape[0];
  pass.length = shape[1];
  pass.lengths = lengths;
  pass.training = true;
  Arena arena = arena_of(layer, pass, shape[2]);
  std::vector<float> x = file.floats("x");
  std::vector<float> dy = file.floats("upstream");
  std::vector<float> y(x.size());
  std::vector<float> dx(x.size());
  const auto rows = [&](std::vector<float>& data) {
    return Matrix(data.data(), pass.rows(), shape[2]);
  };
  layer.forward({pass, rows(x), rows(y), nullptr, {}, arena});
  comparison.output("out64", y);
  const Kept saved = layer.save(pass, arena);
  layer.forward({pass, rows(x), rows(y), &saved, {}, arena});
  comparison.output("out64", y);
  const Kept signals = layer.backward({pass, saved, rows(dy), rows(dx), {}, arena});
  layer.accumulate({pass, rows(x), saved, rows(dy), signals, {}});
  comparison.gradient("grad.x", dx);
  for (const LayerWeight& w : weights) {
    const WeightPart part(*parameters.find(w.ours), w);
    comparison.gradient(
        "grad.w." + std::string(w.theirs),
        part.parameter.gradient.subspan(static_cast<std::size_t>(part.first), part.size));
  }
}

void run_layer(const Case& golden, const MultiHeadAttentionConfig& config,
               std::span<const LayerWeight> weights, Comparison& comparison) {
  Parameters parameters;
  const MultiHeadAttention layer(parameters, "layer", config);
  parameters.allocate();
  if (std::ranges::find(weights, "layer.out.weight", &LayerWeight::ours) == weights.end()) {
    const Parameter& out = *parameters.find("layer.out.weight");
    for (std::size_t row = 0; row < out.rows; ++row) out.value[row * out.cols + row] = 1.0F;
  }
  compare_layer(golden, layer, parameters, weights, comparison);
}

Arena arena_of(const Branch& layer, const Pass& pass, std::size_t d_model) {
  const Dry dry;
  Arena arena = Arena::dry();
  const Matrix x(Dry::memory<float>(pass.rows() * d_model).data(), pass.rows(), d_model);
  layer.forward({pass, x, x, nullptr, {}, arena});
  const Kept saved = layer.save(pass, arena);
  layer.forward({pass, x, x, &saved, {}, arena});
  layer.backward({pass, saved, x, x, {}, arena});
  return Arena(arena.peak());
}

}  // namespace longspan::golden
