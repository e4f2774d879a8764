#include "longspan/testing/attention_problem.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "longspan/attention/registry.h"

namespace longspan::testing {

namespace {

constexpr float kGarbage = 77.0F;

std::vector<float> normals(std::size_t count, RandomKey key) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = random_normal(key, i);
  return x;
}

std::size_t bias_planes(const AttentionCase& c) {
  switch (c.bias) {
    case BiasKind::kNone:
      return 0;
    case BiasKind::kOwn:
      return c.batch * c.heads;
    case BiasKind::kPerHead:
      return c.heads;
    case BiasKind::kPerSequence:
      return c.batch;
    case BiasKind::kShared:
      return 1;
  }
  return 0;
}

template <class T>
TableView<T> bias_view(const AttentionCase& c, T* data) {
  if (c.bias == BiasKind::kNone) return {};
  const std::size_t plane = c.m * c.n;
  TableView<T> view;
  view.data = data;
  view.row_stride = c.n;
  if (c.bias == BiasKind::kOwn || c.bias == BiasKind::kPerHead) view.head_stride = plane;
  if (c.bias == BiasKind::kOwn) view.batch_stride = c.heads * plane;
  if (c.bias == BiasKind::kPerSequence) view.batch_stride = plane;
  return view;
}

}  // namespace

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double error = 0.0;
  double scale = 1.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= error)) error = difference;  // NaN stays
    scale = std::max(scale, std::abs(b[i]));
  }
  return error / scale;
}

std::string AttentionCase::name() const {
  std::string lengths;
  for (const auto l : key_lengths) lengths += fmt::format(" {}", l);
  return fmt::format("batch {} heads {}/{} m {} n {} d {} e {}{}{} bias {}{} dropout {}{}", batch,
                     heads, kv_heads, m, n, d, e, causal ? " causal" : "",
                     lengths.empty() ? "" : " lengths" + lengths, static_cast<int>(bias),
                     visible ? " visible" : "", dropout, columns ? " columns" : "");
}

AttentionMaker::AttentionMaker(std::string_view specification) : name_(specification) {}

LoneAttention AttentionMaker::operator()(const AttentionLayout& layout, bool history) const {
  if (make_) return {make_, Streams::qkv(layout), layout};
  const auto make = [&](const AttentionSite& site) { return make_attention(name_, site); };
  return {make, streams_of(name_, layout), layout, history};
}

SitedAttention::SitedAttention(const AttentionMaker& make, const AttentionCase& c)
    : attention_(make({.d_model = c.heads * c.d,
                       .heads = c.heads,
                       .kv_heads = c.kv_heads,
                       .d_head = c.d,
                       .max_length = std::max(c.m, c.n) + c.history,
                       .deviation = 0.3F,
                       .step = c.step},
                      c.history > 0)) {
  constexpr RandomKey kSeed = 5;
  attention_.allocate(kSeed);
}

Wants SitedAttention::wants() const {
  const Streams& streams = attention_.streams();
  return {attention_->abilities().shared_qk, streams.calls(Source::kInput),
          streams.calls(Source::kHistory)};
}

AttentionProblem::AttentionProblem(const AttentionCase& c_, std::uint64_t seed, Wants wants_)
    : c(c_), wants(wants_) {
  const std::size_t queries = c.batch * c.heads * c.m;
  const std::size_t keys = c.batch * c.kv_heads * c.n;
  q = normals(queries * c.d, derive(seed, "q"));
  k = normals(keys * c.d, derive(seed, "k"));
  v = normals(keys * c.e, derive(seed, "v"));
  dy = normals(queries * c.e, derive(seed, "dy"));
  if (wants.input) x = normals(c.batch * c.n * c.heads * c.d, derive(seed, "x"));
  if (wants.history) {
    history = normals(c.batch * c.history * c.heads * c.d, derive(seed, "history"));
  }
  bias = normals(bias_planes(c) * c.m * c.n, derive(seed, "bias"));
  if (!c.visible) return;
  visible.resize(queries * c.n);
  const RandomKey key = derive(seed, "visible");
  for (std::size_t i = 0; i < visible.size(); ++i) {
    const bool blind = i / c.n % 5 == 3;
    visible[i] = !blind && random_uniform(key, i) < 0.6F ? 1 : 0;
  }
}

AttentionShape AttentionProblem::shape() const {
  AttentionShape s = shape_of(inputs());
  s.bias_gradient = s.bias;
  return s;
}

Heads AttentionProblem::heads(std::vector<float>& tensor, std::size_t heads_, std::size_t n,
                              std::size_t width) const {
  if (!c.columns) return {tensor.data(), c.batch, heads_, n, width};
  return Heads::from_columns(Matrix(tensor.data(), c.batch * n, heads_ * width), c.batch, heads_);
}
ConstHeads AttentionProblem::heads(const std::vector<float>& tensor, std::size_t heads_,
                                   std::size_t n, std::size_t width) const {
  if (!c.columns) return {tensor.data(), c.batch, heads_, n, width};
  return ConstHeads::from_columns(ConstMatrix(tensor.data(), c.batch * n, heads_ * width), c.batch,
                                  heads_);
}

AttentionInputs AttentionProblem::inputs() const {
  AttentionInputs in;
  in.q = heads(q, c.heads, c.m, c.d);
  in.k = wants.shared_qk ? in.q : heads(k, c.kv_heads, c.n, c.d);
  in.v = heads(v, c.kv_heads, c.n, c.e);
  if (wants.input) in.x = ConstMatrix(x.data(), c.batch * c.n, c.heads * c.d);
  if (wants.history) in.history = ConstMatrix(history.data(), c.batch * c.history, c.heads * c.d);
  in.mask.causal = c.causal;
  in.mask.key_lengths = c.key_lengths;
  in.mask.bias = bias_view<const float>(c, bias.data());
  if (c.visible) in.mask.visible = {visible.data(), c.heads * c.m * c.n, c.m * c.n, c.n};
  in.dropout = {c.dropout, 99};
  in.token_types = c.token_types;
  return in;
}

std::vector<double> AttentionProblem::dense(ConstHeads x) {
  std::vector<double> out;
  out.reserve(x.batch * x.heads * x.n * x.d);
  for (std::size_t plane = 0; plane < x.batch * x.heads; ++plane) {
    const ConstMatrix head = x.head(plane / x.heads, plane % x.heads);
    for (std::size_t i = 0; i < x.n; ++i) {
      out.insert(out.end(), head.row_data(i), head.row_data(i) + x.d);
    }
  }
  return out;
}

FullReference<double> AttentionProblem::reference() const {
  const AttentionInputs in = inputs();
  FullReference<double> r;
  r.shape = shape();
  r.mask = in.mask;
  r.dropout = in.dropout;
  r.q = dense(in.q);
  r.k = dense(in.k);
  r.v = dense(in.v);
  r.bias = widen(bias);
  return r;
}

AttentionTensors<double> AttentionProblem::tensors(const Parameters& parameters) const {
  const AttentionInputs in = inputs();
  AttentionTensors<double> t{.shape = shape(),
                             .mask = in.mask,
                             .dropout = in.dropout,
                             .q = dense(in.q),
                             .k = dense(in.k),
                             .v = dense(in.v),
                             .x = widen(x),
                             .history = widen(history),
                             .token_types = in.token_types,
                             .parameters = {}};
  for (const Parameter& p : parameters.all()) {
    t.parameters[p.name] = {p.value.begin(), p.value.end()};
  }
  return t;
}

void AttentionProblem::run(const Attention& attention, bool gradients) {
  const AttentionCost cost = attention.cost(shape());
  y.assign(dy.size(), kGarbage);
  saved.assign(gradients ? cost.saved : 0, kGarbage);
  Meter meter;
  const Meter::Use use(meter);
  {
    const Place::Scope scope("attention", Phase::kForward);
    Arena arena(cost.forward_scratch);
    attention.forward({inputs(), heads(y, c.heads, c.m, c.e), saved, arena});
    forward_peak = arena.peak();
  }
  forward_work = meter.at("attention", Phase::kForward);
  if (gradients) run_backward(attention, cost, meter);
}

void AttentionProblem::run_backward(const Attention& attention, const AttentionCost& cost,
                                    Meter& meter) {
  dq.assign(q.size(), kGarbage);
  dk.assign(wants.shared_qk ? 0 : k.size(), kGarbage);
  dv.assign(v.size(), kGarbage);
  dx.assign(x.size(), kGarbage);
  dbias.assign(bias.size(), 0.5F);
  signals.assign(cost.signals, kGarbage);
  AttentionGradients grad{.q = heads(dq, c.heads, c.m, c.d),
                          .v = heads(dv, c.kv_heads, c.n, c.e),
                          .bias = bias_view(c, dbias.data())};
  if (!wants.shared_qk) grad.k = heads(dk, c.kv_heads, c.n, c.d);
  if (wants.input) grad.x = Matrix(dx.data(), c.batch * c.n, c.heads * c.d);
  {
    const Place::Scope scope("attention", Phase::kBackward);
    AttentionInputs in = inputs();
    in.x = {};
    Arena arena(cost.backward_scratch);
    const auto& result = *this;
    attention.backward({in, result.heads(y, c.heads, c.m, c.e), result.heads(dy, c.heads, c.m, c.e),
                        saved, grad, signals, arena});
    backward_peak = arena.peak();
  }
  backward_work = meter.at("attention", Phase::kBackward);
  const Place::Scope scope("attention", Phase::kUpdate);
  attention.accumulate(inputs(), saved, signals);
  update_work = meter.at("attention", Phase::kUpdate);
}

void AttentionProblem::run(SitedAttention& sited, bool gradients) {
  const std::span<float> all = sited.parameters().gradients();
  std::ranges::fill(all, 0.0F);
  run(*sited, gradients);
  parameter_gradients.assign(all.begin(), all.end());
}

}  // namespace longspan::testing
