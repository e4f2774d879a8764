#include "longspan/layers/head.h"

#include <algorithm>
#include <array>

#include "longspan/base/config.h"
#include "longspan/kernels/rows/sequence.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/layers/runs.h"

namespace longspan {

namespace {

Linear make_output(Parameters& parameters, const std::string& name, const HeadConfig& config,
                   Parameter* tied) {
  if (tied != nullptr) return {parameters, name, *tied, config.bias, Role::kLastLayer};
  const std::size_t inputs = config.pair_width > 0 ? PairLayers::output_width(config.pair_width)
                             : config.width > 0    ? config.width
                                                   : config.d_model;
  return {parameters,      name, inputs, config.outputs, config.bias, config.deviation,
          Role::kLastLayer};
}

}  // namespace

Head::Head(Parameters& parameters, const std::string& name, const HeadConfig& config,
           Parameter* tied)
    : config_(config) {
  if (config.outputs > 0) output_.emplace(make_output(parameters, name + ".output", config, tied));
  if (config.pair_width > 0) {
    require(config.pool && !config.transform && tied == nullptr,
            "[head] pairs of tokens, transformed or tied; need pooled sequences and own layers");
    pairs_.emplace(
        parameters, name + ".pair",
        PairLayers::Config{
            .d_model = config.d_model, .width = config.pair_width, .deviation = config.deviation});
  }
  if (config.transform) {
    transform_.emplace(parameters, name + ".transform", config.d_model, width(),
                       config.transform_bias, config.deviation, Role::kHead);
    if (config.transform_norm) {
      norm_ = std::make_unique<Norm>(parameters, name + ".norm", config.norm_kind, width(),
                                     config.epsilon, Role::kHead, config.norm_learns);
    }
  }
  require(config.transform || width() == config.d_model,
          "[head] outputs are taken at a width of {} of states that are {} wide; need a transform",
          width(), config.d_model);
  if (config.constant_bias && output_) {
    constant_ = &parameters.declare_constant(name + ".output.constant", 1, config.outputs,
                                             [](Matrix b) { fill(b, 0.0F); });
  }
}

ChosenRows Head::chosen(const Pass& pass) const {
  ChosenRows rows{.sequences = {pass.length, pass.lengths}};
  if (config_.pool == Pool::kLargest) rows.ids = pass.tokens;
  return rows;
}

void Head::pool(const Pass& pass, ConstMatrix x, Matrix pooled) const {
  for_each_run(pass, [&](const Run& run) {
    const ConstMatrix own = run.rows(x);
    if (config_.pool == Pool::kFirst) {
      copy(first_rows(own, run.pass.length), run.sequences(pooled));
    } else if (config_.pool == Pool::kMean) {
      mean_rows(own, {run.pass.length, run.pass.lengths}, run.sequences(pooled));
    } else {
      take_rows(chosen(run.pass), own, run.sequences(pooled));
    }
  });
}

void Head::divide(const Pass& pass, Matrix dpooled, Matrix dx) {
  for_each_run(pass, [&](const Run& run) {
    spread_mean(run.sequences(dpooled), {run.pass.length, run.pass.lengths}, run.rows(dx));
  });
}

void Head::spread(const Pass& pass, Matrix dpooled, Matrix dx) const {
  if (config_.pool == Pool::kMean) return divide(pass, dpooled, dx);
  if (config_.pool == Pool::kFirst) fill(dx, 0.0F);
  for_each_run(pass, [&](const Run& run) {
    if (config_.pool == Pool::kFirst) {
      copy(run.sequences(dpooled), first_rows(run.rows(dx), run.pass.length));
    } else {
      put_rows(chosen(run.pass), run.sequences(dpooled), run.rows(dx));
    }
  });
}

Head::Saved Head::forward(const Pass& pass, ConstMatrix x, bool saves, Arena& arena) const {
  Saved saved = transform(pass, x, saves, arena);
  const Place::Scope scope(kMeter, Phase::kForward);
  if (saves && output_ && caps()) saved.capped = arena.matrix(rows(pass), config_.outputs);
  saved.logits = arena.matrix(rows(pass), output_ ? config_.outputs : width());
  score(saved, saved.logits);
  return saved;
}

void Head::score(const Saved& saved, Matrix logits) const {
  const Place::Scope scope(kMeter, Phase::kForward);
  if (!output_) return copy(saved.last, logits);
  output_->forward(saved.last, logits);
  if (constant_ != nullptr) add_mapped_rows(constant_->matrix(), {.modulo = 1}, logits);
  if (!caps()) return;
  scale(1.0F / config_.cap, logits);
  if (saved.capped.rows > 0) copy(logits, saved.capped);
  activation_forward(Activation::kTanh, logits, logits);
  scale(config_.cap, logits);
}

Head::Saved Head::transform(const Pass& pass, ConstMatrix x, bool saves, Arena& arena) const {
  const std::size_t d = config_.d_model;
  Saved saved;
  saved.last = x;
  const Place::Scope scope(kTransformMeter, Phase::kForward);
  if (config_.pool) {
    const Matrix pooled = arena.matrix(pass.batch, d);
    pool(pass, x, pooled);
    saved.last = pooled;
  }
  saved.input = saved.last;
  if (pairs_) {
    saved.pairs = pairs_->forward(saved.input, saves, arena);
    saved.last = saved.pairs.t;
  }
  transform_rows(rows(pass), saves, saved, arena);
  if (config_.scale != 1.0F) {
    const Place::Scope scaling(kMeter, Phase::kForward);
    saved.scaled = arena.matrix(rows(pass), saved.last.cols);
    copy(saved.last, saved.scaled);
    longspan::scale(config_.scale, saved.scaled);
    saved.last = saved.scaled;
  }
  return saved;
}

void Head::transform_rows(std::size_t rows, bool saves, Saved& saved, Arena& arena) const {
  if (!transform_) return;
  if (saves && config_.transform_activates) saved.z = arena.matrix(rows, width());
  saved.h = arena.matrix(rows, width());
  if (config_.transform_activates) {
    transform_->forward(saved.last, config_.activation, saved.z, saved.h);
  } else {
    transform_->forward(saved.last, saved.h);
  }
  saved.last = saved.h;
  if (norm_ == nullptr) return;
  if (saves) saved.norm = norm_->save(rows, arena);
  saved.transformed = arena.matrix(rows, width());
  norm_->forward(saved.h, saved.transformed, saved.norm);
  saved.last = saved.transformed;
}

void Head::learn(const Saved& standard, const Saved& modulated, ConstMatrix signal,
                 float scale) const {
  if (output_) {
    const Place::Scope scope(kMeter, Phase::kUpdate);
    output_->accumulate(modulated.last, signal);
  }
  const auto contrast = [&](Matrix a, ConstMatrix a_err) {
    const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
    difference(scale, a, a_err, a);
    return a;
  };
  if (norm_ != nullptr && !norm_->frozen()) {
    const Matrix g = contrast(standard.transformed, modulated.transformed);
    const Place::Scope scope(kTransformMeter, Phase::kUpdate);
    norm_->accumulate(modulated.norm, g);
  }
  if (transform_ && !transform_->weight().constant) {
    const Matrix g = contrast(standard.h, modulated.h);
    const Place::Scope scope(kTransformMeter, Phase::kUpdate);
    transform_->accumulate(modulated.input, g);
  }
}

void Head::backward(const Pass& pass, const Saved& saved, Matrix dx, Arena& arena) const {
  const Arena::Frame frame(arena);
  const Matrix g = transforms() ? arena.matrix(rows(pass), saved.last.cols) : dx;
  {
    const Place::Scope scope(kMeter, Phase::kBackward);
    if (output_) {
      if (caps()) activation_backward(Activation::kTanh, saved.capped, saved.logits, saved.logits);
      output_->backward(saved.logits, g);
    } else {
      copy(saved.logits, g);
    }
    if (config_.scale != 1.0F) longspan::scale(config_.scale, g);
  }
  if (output_) {
    const Place::Scope scope(kMeter, Phase::kUpdate);
    output_->accumulate(saved.last, saved.logits);
  }
  if (!transforms()) return;
  const Matrix dpooled = before_transform(saved, g, dx, arena);
  const Place::Scope scope(kTransformMeter, Phase::kBackward);
  if (config_.pool) spread(pass, dpooled, dx);
}

Matrix Head::before_transform(const Saved& saved, Matrix g, Matrix dx, Arena& arena) const {
  if (pairs_) {
    const Matrix dpooled = arena.matrix(saved.input.rows, config_.d_model);
    pairs_->backward(saved.pairs, g, dpooled, arena);
    return dpooled;
  }
  if (norm_ != nullptr) {
    {
      const Place::Scope scope(kTransformMeter, Phase::kUpdate);
      norm_->accumulate(saved.norm, g);
    }
    const Place::Scope scope(kTransformMeter, Phase::kBackward);
    norm_->backward(saved.norm, g, g, /*add=*/false);
  }
  if (!transform_) return g;
  const Matrix dpooled = config_.pool ? arena.matrix(g.rows, config_.d_model) : dx;
  {
    const Place::Scope scope(kTransformMeter, Phase::kBackward);
    if (config_.transform_activates) activation_backward(config_.activation, saved.z, g, g);
    transform_->backward(g, dpooled);
  }
  const Place::Scope scope(kTransformMeter, Phase::kUpdate);
  transform_->accumulate(saved.input, g);
  return dpooled;
}

}  // namespace longspan
