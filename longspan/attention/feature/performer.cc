#include "longspan/attention/feature/performer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "longspan/attention/feature/linear_attention.h"
#include "longspan/base/error.h"
#include "longspan/base/number.h"

namespace longspan {

Abilities PerformerAttention::can(const PerformerConfig& c) {
  check_numbers(kName, c);
  require(c.sum_epsilon == 0.0F || c.epsilon > 0.0F || c.kernel == PerformerKernel::kRelu,
          "[performer] sum_epsilon is {} but epsilon is 0; need both or none", c.sum_epsilon);
  // With ε the maximum of all keys must be known, which no state can.
  return {.causal = true,
          .cross = true,
          .key_lengths = true,
          .grouped_heads = true,
          .decode = c.epsilon == 0.0F};
}

PerformerAttention::PerformerAttention(const PerformerConfig& config, const AttentionSite& site)
    : Attention(can(config)),
      config_(config),
      d_(site.d_head),
      key_(derive(derive(config.seed, "performer"), site.name)) {
  const std::size_t count = rows(config, d_);
  if (config_.orthogonal != Orthogonal::kHadamard) {
    omega_ = &site.parameters.declare_constant(
        site.name + ".performer.features", count, d_, [this](Matrix omega) {
          draw_features(config_.orthogonal, config_.norms, key_of(0), omega);
        });
    return;
  }
  const FeatureMap empty = map(d_);
  signs_ = &site.parameters.declare_constant(
      site.name + ".performer.signs", empty.projection.sign_rows(d_), FeatureProjection::padded(d_),
      [this](Matrix signs) { draw_signs(key_of(0), signs); });
  norms_ = &site.parameters.declare_constant(
      site.name + ".performer.norms", 1, count,
      [this](Matrix norms) { draw_norms(config_.norms, d_, key_of(0), norms.row(0)); });
}

std::size_t PerformerAttention::rows(const PerformerConfig& config, std::size_t d) {
  const auto width = static_cast<double>(d);
  std::size_t features = config.features;
  if (features == 0) {
    features = std::max<std::size_t>(
        1, static_cast<std::size_t>(std::ceil(width * std::log(width) - 1e-9)));
  }
  return config.kernel == PerformerKernel::kHyperbolic ? (features + 1) / 2 : features;
}

FeatureMap PerformerAttention::map(const PerformerConfig& config, std::size_t d) {
  FeatureMap map;
  const bool relu = config.kernel == PerformerKernel::kRelu;
  const bool shifted = !relu && config.epsilon > 0.0F;
  map.kind = relu ? FeatureKind::kRelu : shifted ? FeatureKind::kShifted : FeatureKind::kExp;
  map.projection.rows = rows(config, d);
  map.projection.hadamard = config.orthogonal == Orthogonal::kHadamard;
  map.mirrored = config.kernel == PerformerKernel::kHyperbolic;
  map.norm = map.kind == FeatureKind::kExp;
  map.scale = 1.0F / std::sqrt(std::sqrt(static_cast<float>(d)));
  map.epsilon = relu ? config.relu_epsilon : config.epsilon;
  // Exponential features leave out their 1/√M, which cancels, but not against an ε.
  map.sum_epsilon = shifted ? config.sum_epsilon * std::sqrt(static_cast<float>(map.features(d)))
                            : config.sum_epsilon;
  return map;
}

FeatureMap PerformerAttention::drawn_map(std::size_t d) const {
  require(d_ == d && (omega_ != nullptr || signs_ != nullptr),
          "[performer] features are drawn for width {}; queries are {} wide", d_, d);
  FeatureMap drawn = map(d);
  if (omega_ != nullptr) {
    drawn.projection.dense = omega_->matrix();
  } else {
    drawn.projection.signs = signs_->value.data();
    drawn.projection.norms = norms_->value.data();
  }
  return drawn;
}

RandomKey PerformerAttention::key_of(std::uint64_t draw) const { return derive(key_, draw); }

void PerformerAttention::begin_step(std::uint64_t step) {
  if (config_.redraw == 0 || step % config_.redraw != 0) return;
  const RandomKey key = key_of(step / config_.redraw);
  if (omega_ != nullptr) {
    draw_features(config_.orthogonal, config_.norms, key,
                  {omega_->value.data(), omega_->rows, omega_->cols});
  } else if (signs_ != nullptr) {
    draw_signs(key, {signs_->value.data(), signs_->rows, signs_->cols});
    draw_norms(config_.norms, d_, key, norms_->value);
  }
}

AttentionCost PerformerAttention::cost(const AttentionShape& s) const {
  return attention_cost(feature_cost(map(s.d), feature_shape(s)));
}

std::size_t PerformerAttention::state_floats(const AttentionShape& s) const {
  return config_.epsilon > 0.0F ? 0 : feature_decode_floats(map(s.d), feature_shape(s));
}

AttentionCost PerformerAttention::decode_cost(const AttentionShape& s) const {
  return attention_cost(feature_decode_cost(map(s.d), feature_shape(s)));
}

void PerformerAttention::run_forward(const ForwardCall& call) const {
  const AttentionInputs& in = call.in;
  const Heads y = call.y;
  const std::span<float> saved = call.saved;
  Arena& arena = call.arena;
  feature_forward(drawn_map(in.q.d), feature_tensors(in), y, saved, arena);
}

void PerformerAttention::run_backward(const BackwardCall& call) const {
  const AttentionInputs& in = call.in;
  const ConstHeads y = call.y;
  const ConstHeads dy = call.dy;
  const std::span<const float> saved = call.saved;
  const AttentionGradients& grad = call.grad;
  Arena& arena = call.arena;
  feature_backward(drawn_map(in.q.d), feature_tensors(in), y, dy, saved, grad.q, grad.k, grad.v,
                   arena);
}

void PerformerAttention::run_decode(const AttentionInputs& in, Heads y, std::span<float> state,
                                    Arena& arena) const {
  feature_decode(drawn_map(in.q.d), feature_tensors(in), y, state, arena);
}

FeaturesNeeded features_needed(ConstHeads q, ConstHeads k, double error) {
  require(error > 0.0, "[performer] an error of {} is asked for; need more than 0", error);
  require(q.d == k.d && q.batch == k.batch && k.heads > 0 && q.heads % k.heads == 0,
          "[performer] queries [{}, {}, ·, {}] and keys [{}, {}, ·, {}] do not fit", q.batch,
          q.heads, q.d, k.batch, k.heads, k.d);
  constexpr std::size_t kMost = 512;
  const std::size_t queries = std::min(q.n, kMost);
  const std::size_t keys = std::min(k.n, kMost);
  std::vector<double> squares;
  squares.reserve(q.batch * q.heads * queries * keys);
  for (std::size_t plane = 0; plane < q.batch * q.heads; ++plane) {
    const std::size_t h = plane % q.heads;
    const ConstMatrix x = q.head(plane / q.heads, h);
    const ConstMatrix y = k.head(plane / q.heads, h / (q.heads / k.heads));
    for (std::size_t i = 0; i < queries; ++i) {
      for (std::size_t j = 0; j < keys; ++j) {
        const float* a = x.row_data(i * q.n / queries);
        const float* b = y.row_data(j * k.n / keys);
        double sum = 0.0;
        for (std::size_t c = 0; c < q.d; ++c) {
          const double both = double{a[c]} + double{b[c]};
          sum += both * both;
        }
        squares.push_back(sum / std::sqrt(static_cast<double>(q.d)));
      }
    }
  }
  if (squares.empty()) return {};
  const auto need = [&](double square) { return std::expm1(square) / (error * error); };
  const auto middle = squares.begin() + static_cast<std::ptrdiff_t>(squares.size() / 2);
  std::ranges::nth_element(squares, middle);
  const double median = *middle;
  return {need(median), need(*std::ranges::max_element(squares))};
}

}  // namespace longspan
