#include "longspan/models/stages.h"

#include <utility>

#include "longspan/base/error.h"
#include "longspan/base/place.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

Stages::Stages(StagesConfig config, std::size_t layers) : config_(std::move(config)) {
  for (std::size_t s = 0; s < count(); ++s) {
    stage_.insert(stage_.end(), config_.layers[s], s);
  }
  require(!active() || (count() > 1 && stage_.size() < layers),
          "[stages] {} stages of {} layers in a stack of {}; need two or more, and a layer behind",
          count(), stage_.size(), layers);
  stage_.resize(layers, count());
}

Stages::Entry Stages::entry(std::size_t layer) const {
  if (layer == 0 || stage_[layer] == stage_[layer - 1]) return Entry::kNone;
  return stage_[layer] == count() ? Entry::kRepeat : Entry::kPool;
}

std::size_t Stages::step(std::size_t layer) const {
  if (!active() || stage_[layer] == count()) return 1;
  return std::size_t{1} << (stage_[layer] - (reads_unpooled(layer) ? 1 : 0));
}

Pooling Stages::pooling(const Pass& longer) const {
  return {.batch = longer.batch,
          .length = longer.length,
          .maximum = config_.maximum,
          .cls = config_.cls,
          .truncated = config_.truncated};
}

Repetition Stages::repetition(const StageRun& run) const {
  return {.batch = run.passes[0].batch,
          .length = run.passes[0].length,
          .rows = run.passes[count() - 1].length,
          .times = std::size_t{1} << (count() - 1),
          .cls = config_.cls};
}

void Stages::begin(const Pass& pass, Arena& arena, StageRun& run) const {
  const Place::Scope scope(kMeter, Phase::kForward);
  run.passes.assign(count() + 1, pass);
  run.unpooled.assign(count(), {});
  run.lengths.resize(pass.lengths.empty() ? 0 : count() * pass.batch);
  for (std::size_t s = 1; s < count(); ++s) {
    const Pass& longer = run.passes[s - 1];
    Pass& own = run.passes[s];
    const std::size_t least = config_.cls ? 3 : 2;
    require(longer.length >= least, "[stages] {} tokens reach pool {}; it needs at least {}",
            longer.length, s, least);
    const Pooling pool = pooling(longer);
    own.length = pool.pooled();
    if (!pass.lengths.empty()) {
      own.lengths = std::span(run.lengths).subspan(s * pass.batch, pass.batch);
      for (std::size_t b = 0; b < pass.batch; ++b) {
        run.lengths[s * pass.batch + b] =
            static_cast<std::int32_t>(pool.real(static_cast<std::size_t>(longer.lengths[b])));
      }
    }
    if (pass.token_types.empty()) continue;
    const auto types = arena.take<std::int32_t>(own.rows());
    pool_ids(pool, longer.token_types, types);
    own.token_types = types;
  }
}

Pass Stages::pass_of(const StageRun& run, std::size_t layer) const {
  const std::size_t s = stage_[layer];
  Pass pass = run.passes[s];
  if (!reads_unpooled(layer)) return pass;
  const Pass& longer = run.passes[s - 1];
  pass.context = run.unpooled[s];
  pass.context_length = longer.length;
  pass.context_lengths = longer.lengths;
  pass.context_types = longer.token_types;
  return pass;
}

Matrix Stages::enter(std::size_t layer, Matrix x, StageRun& run, Arena& arena) const {
  if (entry(layer) == Entry::kNone) return x;
  const Place::Scope scope(kMeter, Phase::kForward);
  const std::size_t s = stage_[layer];
  const Matrix y = arena.matrix(run.passes[s].rows(), x.cols);
  if (entry(layer) == Entry::kRepeat) {
    repeat_rows(repetition(run), x, run.unpooled[1], y);
  } else {
    run.unpooled[s] = x;
    pool_rows(pooling(run.passes[s - 1]), x, y);
  }
  return y;
}

Matrix Stages::take_gradient(std::size_t layer, const StageRun& run, std::size_t width,
                             Arena& arena) const {
  if (entry(layer) != Entry::kPool) return {};
  const Place::Scope scope(kMeter, Phase::kBackward);
  const Matrix g = arena.matrix(run.passes[stage_[layer] - 1].rows(), width);
  fill(g, 0.0F);
  return g;
}

Matrix Stages::leave(std::size_t layer, Matrix g, Matrix unpooled, Matrix& skip,
                     const StageRun& run, Arena& arena) const {
  if (entry(layer) == Entry::kNone) return g;
  const Place::Scope scope(kMeter, Phase::kBackward);
  if (entry(layer) == Entry::kRepeat) {
    skip = g;
    const Matrix shorter = arena.matrix(run.passes[count() - 1].rows(), g.cols);
    repeat_rows_backward(repetition(run), g, shorter);
    return shorter;
  }
  const std::size_t s = stage_[layer];
  pool_rows_backward(pooling(run.passes[s - 1]), run.unpooled[s], g, unpooled);
  if (s == 1) add(skip, unpooled, unpooled);
  return unpooled;
}

}  // namespace longspan
