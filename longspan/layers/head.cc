#include "longspan/layers/head.h"

#include <algorithm>
#include <array>

#include "longspan/base/config.h"
#include "longspan/kernels/vector.h"

namespace longspan {

namespace {

constexpr std::array<std::string_view, 3> kPoolNames = {"none", "first", "mean"};
constexpr std::string_view kTransformMeter = "head";

Linear make_output(Parameters& parameters, const std::string& name, const HeadConfig& config,
                   Parameter* tied) {
  if (tied != nullptr) return {parameters, name, *tied, config.bias};
  return {parameters, name, config.d_model, config.outputs, config.bias, config.deviation};
}

// Real tokens of sequence b; a sequence without any counts as one token, so that its mean is
// defined.
std::size_t real_tokens(const Pass& pass, std::size_t b) {
  if (pass.lengths.empty()) return pass.length;
  return std::max<std::size_t>(1, static_cast<std::size_t>(pass.lengths[b]));
}

}  // namespace

std::string_view name_of(Pool pool) { return kPoolNames[static_cast<std::size_t>(pool)]; }

Pool pool_from(std::string_view name) {
  for (std::size_t i = 0; i < kPoolNames.size(); ++i) {
    if (kPoolNames[i] == name) return static_cast<Pool>(i);
  }
  throw_unknown("model", "pool", name, {kPoolNames.begin(), kPoolNames.end()});
}

Head::Head(Parameters& parameters, const std::string& name, const HeadConfig& config,
           Parameter* tied)
    : config_(config), output_(make_output(parameters, name + ".output", config, tied)) {
  if (config.transform) {
    transform_.emplace(parameters, name + ".transform", config.d_model, config.d_model, true,
                       config.deviation);
    if (config.transform_norm) {
      norm_ = std::make_unique<Norm>(parameters, name + ".norm", config.norm_kind, config.d_model,
                                     config.epsilon);
    }
  }
}

void Head::pool(const Pass& pass, ConstMatrix x, Matrix pooled) const {
  for (std::size_t b = 0; b < pass.batch; ++b) {
    const Matrix row = pooled.slice_rows(b, 1);
    const ConstMatrix tokens = x.slice_rows(b * pass.length, pass.length);
    if (config_.pool == Pool::kFirst) {
      copy(tokens.slice_rows(0, 1), row);
      continue;
    }
    const std::size_t count = real_tokens(pass, b);
    fill(row, 0.0F);
    add_column_sums(tokens.slice_rows(0, count), row.data);
    scale(1.0F / static_cast<float>(count), row);
  }
}

void Head::spread(const Pass& pass, Matrix dpooled, Matrix dx) const {
  fill(dx, 0.0F);
  for (std::size_t b = 0; b < pass.batch; ++b) {
    const std::size_t count = config_.pool == Pool::kFirst ? 1 : real_tokens(pass, b);
    const Matrix row = dpooled.slice_rows(b, 1);
    if (config_.pool == Pool::kMean) scale(1.0F / static_cast<float>(count), row);
    for (std::size_t i = 0; i < count; ++i) copy(row, dx.slice_rows(b * pass.length + i, 1));
  }
}

std::uint64_t Head::pooled_elements(const Pass& pass) const {
  std::uint64_t tokens = 0;
  for (std::size_t b = 0; b < pass.batch; ++b) tokens += real_tokens(pass, b);
  return tokens * config_.d_model;
}

Head::Saved Head::forward(const Pass& pass, ConstMatrix x, bool saves, Arena& arena) const {
  Saved saved = transform(pass, x, saves, arena);
  saved.logits = arena.matrix(rows(pass), config_.outputs);
  score(saved, saved.logits);
  return saved;
}

void Head::score(const Saved& saved, Matrix logits) const {
  const Meter::Scope scope(kMeter, Phase::kForward);
  output_.forward(saved.last, logits);
}

Head::Saved Head::transform(const Pass& pass, ConstMatrix x, bool saves, Arena& arena) const {
  const std::size_t r = rows(pass);
  const std::size_t d = config_.d_model;
  Saved saved;
  saved.last = x;
  const Meter::Scope scope(kTransformMeter, Phase::kForward);
  if (config_.pool != Pool::kNone) {
    const Matrix pooled = arena.matrix(r, d);
    pool(pass, x, pooled);
    saved.last = pooled;
  }
  saved.input = saved.last;
  if (!transform_) return saved;
  if (saves) saved.z = arena.matrix(r, d);
  saved.h = arena.matrix(r, d);
  transform_->forward(saved.last, config_.activation, saved.z, saved.h);
  saved.last = saved.h;
  if (norm_ == nullptr) return saved;
  if (saves) saved.norm = norm_->save(r, arena);
  saved.transformed = arena.matrix(r, d);
  norm_->forward(saved.h, saved.transformed, saved.norm);
  saved.last = saved.transformed;
  return saved;
}

void Head::learn(const Saved& standard, const Saved& modulated, ConstMatrix signal,
                 float scale) const {
  {
    const Meter::Scope scope(kMeter, Phase::kUpdate);
    output_.accumulate(modulated.last, signal);
  }
  const auto contrast = [&](Matrix a, ConstMatrix a_err) {
    const Meter::Scope scope(kOverheadMeter, Phase::kUpdate);
    difference(scale, a, a_err, a);
    return a;
  };
  if (norm_ != nullptr && !norm_->frozen()) {
    const Matrix g = contrast(standard.transformed, modulated.transformed);
    const Meter::Scope scope(kTransformMeter, Phase::kUpdate);
    norm_->accumulate(modulated.norm, g);
  }
  if (transform_ && !transform_->weight().constant) {
    const Matrix g = contrast(standard.h, modulated.h);
    const Meter::Scope scope(kTransformMeter, Phase::kUpdate);
    transform_->accumulate(modulated.input, g);
  }
}

Work Head::contrast_cost(const Pass& pass) const {
  std::uint64_t outputs = 0;
  if (norm_ != nullptr && !norm_->frozen()) ++outputs;
  if (transform_ && !transform_->weight().constant) ++outputs;
  return flops(Kind::kAdd, outputs * rows(pass) * config_.d_model);
}

void Head::backward(const Pass& pass, const Saved& saved, Matrix dx, Arena& arena) const {
  const Arena::Frame frame(arena);
  const Matrix g = transforms() ? arena.matrix(rows(pass), config_.d_model) : dx;
  {
    const Meter::Scope scope(kMeter, Phase::kBackward);
    output_.backward(saved.logits, g);
  }
  {
    const Meter::Scope scope(kMeter, Phase::kUpdate);
    output_.accumulate(saved.last, saved.logits);
  }
  if (!transforms()) return;
  if (norm_ != nullptr) {
    {
      const Meter::Scope scope(kTransformMeter, Phase::kUpdate);
      norm_->accumulate(saved.norm, g);
    }
    const Meter::Scope scope(kTransformMeter, Phase::kBackward);
    norm_->backward(saved.norm, g, g, /*add=*/false);
  }
  Matrix dpooled = g;
  if (transform_) {
    dpooled = config_.pool == Pool::kNone ? dx : arena.matrix(rows(pass), config_.d_model);
    {
      const Meter::Scope scope(kTransformMeter, Phase::kBackward);
      activation_backward(config_.activation, saved.z, g, g);
      transform_->backward(g, dpooled);
    }
    const Meter::Scope scope(kTransformMeter, Phase::kUpdate);
    transform_->accumulate(saved.input, g);
  }
  const Meter::Scope scope(kTransformMeter, Phase::kBackward);
  if (config_.pool != Pool::kNone) spread(pass, dpooled, dx);
}

Cost Head::output_cost(const Pass& pass) const { return output_.cost(rows(pass)); }

Cost Head::transform_cost(const Pass& pass) const {
  Cost cost;
  const std::uint64_t elements = std::uint64_t{rows(pass)} * config_.d_model;
  if (config_.pool == Pool::kMean) {
    cost.forward += flops(Kind::kAdd, pooled_elements(pass) + elements);
    cost.backward += flops(Kind::kAdd, elements);
  }
  if (transform_) {
    cost += transform_->cost(rows(pass));
    cost.forward += flops(Kind::kActivation, elements * flops_of(config_.activation).forward);
    cost.backward += flops(Kind::kActivation, elements * flops_of(config_.activation).backward);
  }
  if (norm_ != nullptr) cost += norm_->cost(rows(pass));
  return cost;
}

void Head::plan_forward(const Pass& pass, bool saves, ArenaPlan& plan) const {
  plan_transform(pass, saves, plan);
  plan.take(Arena::bytes_for(rows(pass) * config_.outputs));
}

void Head::plan_transform(const Pass& pass, bool saves, ArenaPlan& plan) const {
  const std::size_t block = Arena::bytes_for(rows(pass) * config_.d_model);
  if (config_.pool != Pool::kNone) plan.take(block);
  if (transform_) plan.take(saves ? 2 * block : block);
  if (norm_ != nullptr) plan.take((saves ? norm_->saved_bytes(rows(pass)) : 0) + block);
}

void Head::plan_backward(const Pass& pass, ArenaPlan& plan) const {
  if (!transforms()) return;
  const std::size_t block = Arena::bytes_for(rows(pass) * config_.d_model);
  plan.touch(config_.pool != Pool::kNone && transform_ ? 2 * block : block);
}

}  // namespace longspan
