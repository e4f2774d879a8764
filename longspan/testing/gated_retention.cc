#include "longspan/testing/gated_retention.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "longspan/base/config.h"

namespace longspan::testing {

namespace {

// FLOPs beside MACCs, of a pair, of a row of a value head and of an element of it.
constexpr std::uint64_t kScale = 1;
constexpr std::uint64_t kDecay = 3;          // difference, exponential, product
constexpr std::uint64_t kPairBackward = 2;   // s·D and p·D/√d
constexpr std::uint64_t kDecayBackward = 5;  // difference, exponential, p·s·D, two sums
constexpr std::uint64_t kLevel = 4;
constexpr std::uint64_t kLevelBackward = 6;
constexpr std::uint64_t kGate = 4;
constexpr std::uint64_t kGateBackward = 7;
constexpr std::uint64_t kStateDecay = 3;  // σ(f)

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

float dot(std::span<const float> a, std::span<const float> b) {
  float sum = 0.0F;
  for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

void add_to(std::span<float> y, float scale, std::span<const float> x) {
  for (std::size_t c = 0; c < y.size(); ++c) y[c] += scale * x[c];
}

void clear(const Heads& x) {
  for (std::size_t plane = 0; plane < x.batch * x.heads; ++plane) {
    const Matrix head = x.head(plane / x.heads, plane % x.heads);
    for (std::size_t i = 0; i < x.n; ++i) std::ranges::fill(head.row(i), 0.0F);
  }
}

std::size_t value_heads(const AttentionShape& s) {
  return s.value_heads == 0 ? s.kv_heads : s.value_heads;
}

float over_root(std::size_t d) { return 1.0F / std::sqrt(static_cast<float>(d)); }

GatedRetentionConfig parsed(std::string_view options) {
  GatedRetentionConfig config;
  parse_options("retention", options, config);
  return config;
}

}  // namespace

Abilities GatedRetention::can() {
  return {.causal = true, .cross = true, .key_lengths = true, .decode = true, .value_heads = true};
}

Streams GatedRetention::streams(const GatedRetentionConfig& config, const AttentionLayout& layout) {
  Streams all = Streams::qkv(layout);
  all.given[0].width = all.given[1].width = layout.d_head / config.narrow;
  Stream& v = all.given[2];
  v.heads = config.values * layout.kv_heads;
  v.width = config.wider * layout.d_head;
  all.output_heads = v.heads;
  all.output_width = v.width;
  Stream gate{.name = "gate", .group = "gates", .heads = v.heads, .width = v.width, .bias = true};
  Stream decay{.name = "decay", .group = "gates", .heads = v.heads, .width = 1, .bias = true};
  all.given.push_back(gate);
  if (!layout.cross) all.given.push_back(decay);
  return all;
}

const Mechanism& GatedRetention::mechanism() {
  static const Mechanism kEntry{
      .name = "retention",
      .kind = MechanismClass::kKernel,
      .complexity = "O(n²)",
      .memory = "O(n)",
      .summary = "gated retention with centred keys",
      .gives_up = "",
      .abilities = [](std::string_view /*options*/) { return can(); },
      .streams = [](std::string_view options,
                    const AttentionLayout& layout) { return streams(parsed(options), layout); },
      .make = [](std::string_view options,
                 const AttentionSite& site) -> std::unique_ptr<Attention> {
        return std::make_unique<GatedRetention>(parsed(options), site);
      }};
  return kEntry;
}

GatedRetention::GatedRetention(const GatedRetentionConfig& config, const AttentionSite& site)
    : Attention(can()),
      config_(config),
      decays_(!site.cross),
      mean_(&site.parameters.declare_constant(
          site.name + ".retention.mean", site.kv_heads, site.d_head / config.narrow,
          [](Matrix mean) { std::fill_n(mean.data, mean.size(), 0.0F); })),
      sum_(mean_->size()) {}

void GatedRetention::begin_step(std::uint64_t /*step*/) {
  std::ranges::fill(sum_, 0.0F);
  gathered_ = 0;
}

void GatedRetention::end_step() {
  ++ends_;
  taken_ += gathered_;
  if (gathered_ == 0) return;
  const float fresh = (1.0F - kKept) / static_cast<float>(gathered_);
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    mean_->value[i] = kKept * mean_->value[i] + fresh * sum_[i];
  }
  std::ranges::fill(sum_, 0.0F);
  gathered_ = 0;
}

void GatedRetention::check_more(const AttentionShape& s) const {
  require(!decays_ || s.m == s.n, "[retention] {} queries and {} keys of one sequence", s.m, s.n);
}

AttentionCost GatedRetention::cost(const AttentionShape& s) const {
  const std::uint64_t heads = value_heads(s);
  const std::uint64_t pairs = heads * visible_pairs(s);
  const std::uint64_t rows = heads * s.batch * s.m;
  AttentionCost c;
  c.forward = maccs(pairs * (s.d + s.e));
  c.forward[Kind::kAdd] = s.batch * s.kv_heads * s.n * s.d;
  c.forward[Kind::kFeature] = pairs * (kScale + (decays_ ? kDecay : 0));
  c.forward[Kind::kActivation] = rows * (s.e * kGate + (decays_ ? kLevel : 0));
  c.backward = maccs(pairs * (3 * s.d + 2 * s.e));
  c.backward[Kind::kFeature] = pairs * (kScale + kPairBackward + (decays_ ? kDecayBackward : 0));
  c.backward[Kind::kActivation] = rows * (s.e * kGateBackward + (decays_ ? kLevelBackward : 0));
  c.update = flops(Kind::kAdd, real_keys(s) * s.kv_heads * s.d);
  c.saved = s.batch * s.n * (s.kv_heads * s.d + (decays_ ? heads : 0));
  c.forward_scratch = Arena::bytes_for(c.saved);
  c.backward_scratch = Arena::bytes_for(s.n) + Arena::bytes_for(s.e);
  return c;
}

template <class T>
GatedRetention::Prepared<T> GatedRetention::split(const AttentionShape& s,
                                                  std::span<T> floats) const {
  const std::size_t keys = s.batch * s.kv_heads * s.n * s.d;
  return {{floats.data(), s.batch, s.kv_heads, s.n, s.d}, floats.subspan(keys)};
}

void GatedRetention::prepare(const AttentionInputs& in, const Prepared<float>& to,
                             Work& work) const {
  for (std::size_t plane = 0; plane < in.k.batch * in.k.heads; ++plane) {
    const std::size_t h = plane % in.k.heads;
    const ConstMatrix k = in.k.head(plane / in.k.heads, h);
    const Matrix centred = to.centred.head(plane / in.k.heads, h);
    for (std::size_t j = 0; j < in.k.n; ++j) {
      std::ranges::transform(k.row(j), mean().row(h), centred.row(j).begin(), std::minus<>());
      work[Kind::kAdd] += in.k.d;
    }
  }
  if (!decays_) return;
  const ConstHeads& f = in.more[1];
  for (std::size_t plane = 0; plane < f.batch * f.heads; ++plane) {
    const ConstMatrix head = f.head(plane / f.heads, plane % f.heads);
    float level = 0.0F;
    for (std::size_t i = 0; i < f.n; ++i) {
      level -= std::log1p(std::exp(-head.row(i)[0]));
      to.levels[plane * f.n + i] = level;
      work[Kind::kActivation] += kLevel;
    }
  }
}

void GatedRetention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const AttentionShape s = shape_of(in);
  const std::size_t heads = value_heads(s);
  const float scale = over_root(s.d);
  const std::span<float> own = call.arena.take(cost(s).saved);
  const auto [centred, levels] = split(s, own);
  Work work;
  prepare(in, {centred, levels}, work);
  if (!call.saved.empty()) std::ranges::copy(own, call.saved.begin());
  for (std::size_t plane = 0; plane < s.batch * heads; ++plane) {
    const std::size_t b = plane / heads;
    const std::size_t w = plane % heads;
    const ConstMatrix q = in.q.head(b, w / config_.values);
    const ConstMatrix k = centred.head(b, w / config_.values);
    const ConstMatrix v = in.v.head(b, w);
    const ConstMatrix g = in.more[0].head(b, w);
    for (std::size_t i = 0; i < s.m; ++i) {
      const std::span<float> y = call.y.head(b, w).row(i);
      std::ranges::fill(y, 0.0F);
      const std::size_t end = visible_end(in.mask, b, i, s.m, s.n);
      for (std::size_t j = 0; j < end; ++j) {
        float weight = scale * dot(q.row(i), k.row(j));
        if (decays_) {
          weight *= std::exp(-std::abs(levels[plane * s.n + i] - levels[plane * s.n + j]));
          work[Kind::kFeature] += kDecay;
        }
        add_to(y, weight, v.row(j));
        work.maccs += s.d + s.e;
        work[Kind::kFeature] += kScale;
      }
      for (std::size_t a = 0; a < s.e; ++a) y[a] *= sigmoid(g.row(i)[a]);
      work[Kind::kActivation] += s.e * kGate;
    }
  }
  report(work);
}

void GatedRetention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const AttentionGradients& grad = call.grad;
  const AttentionShape s = shape_of(in);
  const std::size_t heads = value_heads(s);
  const float scale = over_root(s.d);
  const std::span<float> dlevel = call.arena.take(s.n);
  const std::span<float> doutput = call.arena.take(s.e);
  const auto [centred, all_levels] = split(s, call.saved);
  Work work;
  clear(grad.q);
  clear(grad.k);
  clear(grad.v);
  for (std::size_t plane = 0; plane < s.batch * heads; ++plane) {
    const std::size_t b = plane / heads;
    const std::size_t w = plane % heads;
    const std::size_t h = w / config_.values;
    const float* levels = all_levels.data() + plane * s.n;
    std::ranges::fill(dlevel, 0.0F);
    for (std::size_t i = 0; i < s.m; ++i) {
      const std::span<const float> q = in.q.head(b, h).row(i);
      for (std::size_t a = 0; a < s.e; ++a) {
        const float gate = sigmoid(in.more[0].head(b, w).row(i)[a]);
        const float dy = call.dy.head(b, w).row(i)[a];
        doutput[a] = dy * gate;
        grad.more[0].head(b, w).row(i)[a] = dy * call.y.head(b, w).row(i)[a] * (1.0F - gate);
      }
      work[Kind::kActivation] += s.e * kGateBackward;
      const std::size_t end = visible_end(in.mask, b, i, s.m, s.n);
      for (std::size_t j = 0; j < end; ++j) {
        const std::span<const float> k = centred.head(b, h).row(j);
        const float decay = decays_ ? std::exp(-std::abs(levels[i] - levels[j])) : 1.0F;
        const float weight = scale * dot(q, k) * decay;
        const float p = dot(doutput, in.v.head(b, w).row(j));
        add_to(grad.v.head(b, w).row(j), weight, doutput);
        add_to(grad.q.head(b, h).row(i), p * decay * scale, k);
        add_to(grad.k.head(b, h).row(j), p * decay * scale, q);
        work.maccs += 3 * s.d + 2 * s.e;
        work[Kind::kFeature] += kScale + kPairBackward;
        if (!decays_) continue;
        dlevel[std::max(i, j)] += p * weight;
        dlevel[std::min(i, j)] -= p * weight;
        work[Kind::kFeature] += kDecayBackward;
      }
    }
    if (!decays_) continue;
    float sum = 0.0F;
    for (std::size_t i = s.n; i-- > 0;) {
      sum += dlevel[i];
      grad.more[1].head(b, w).row(i)[0] = sum * (1.0F - sigmoid(in.more[1].head(b, w).row(i)[0]));
      work[Kind::kActivation] += kLevelBackward;
    }
  }
  report(work);
}

void GatedRetention::run_accumulate(const AttentionInputs& in, std::span<const float> /*saved*/,
                                    std::span<const float> /*signals*/) const {
  Work work;
  for (std::size_t b = 0; b < in.k.batch; ++b) {
    const std::size_t keys = in.mask.keys(b, in.k.n);
    for (std::size_t h = 0; h < in.k.heads; ++h) {
      for (std::size_t j = 0; j < keys; ++j) {
        add_to(std::span(sum_).subspan(h * in.k.d, in.k.d), 1.0F, in.k.head(b, h).row(j));
        work[Kind::kAdd] += in.k.d;
      }
    }
    gathered_ += keys;
  }
  report(work);
}

std::size_t GatedRetention::state_floats(const AttentionShape& s) const {
  return decays_ ? s.batch * value_heads(s) * s.d * s.e : 0;
}

AttentionCost GatedRetention::decode_cost(const AttentionShape& s) const {
  const std::uint64_t rows = s.batch * value_heads(s) * s.m;
  AttentionCost c;
  c.forward = maccs(2 * rows * s.d * s.e);
  c.forward[Kind::kAdd] = rows * s.d;
  c.forward[Kind::kFeature] = rows * (s.d * s.e + s.d * kScale);
  c.forward[Kind::kActivation] = rows * (s.e * kGate + kStateDecay);
  return c;
}

void GatedRetention::run_decode(const AttentionInputs& in, Heads y, std::span<float> state,
                                Arena& /*arena*/) const {
  const AttentionShape s = shape_of(in);
  const std::size_t heads = value_heads(s);
  Work work;
  for (std::size_t plane = 0; plane < s.batch * heads; ++plane) {
    const std::size_t b = plane / heads;
    const std::size_t w = plane % heads;
    const std::size_t h = w / config_.values;
    const Matrix held(state.data() + plane * s.d * s.e, s.d, s.e);
    for (std::size_t i = 0; i < s.m; ++i) {
      const std::span<float> to = y.head(b, w).row(i);
      const float decay = sigmoid(in.more[1].head(b, w).row(i)[0]);
      std::ranges::fill(to, 0.0F);
      for (std::size_t a = 0; a < s.d; ++a) {
        for (float& element : held.row(a)) element *= decay;
        add_to(held.row(a), in.k.head(b, h).row(i)[a] - mean().row(h)[a], in.v.head(b, w).row(i));
        add_to(to, over_root(s.d) * in.q.head(b, h).row(i)[a], held.row(a));
        work.maccs += 2 * s.e;
        work[Kind::kAdd] += 1;
        work[Kind::kFeature] += s.e + kScale;
      }
      for (std::size_t a = 0; a < s.e; ++a) to[a] *= sigmoid(in.more[0].head(b, w).row(i)[a]);
      work[Kind::kActivation] += s.e * kGate + kStateDecay;
    }
  }
  report(work);
}

}  // namespace longspan::testing
