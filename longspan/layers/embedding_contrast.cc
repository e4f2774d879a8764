// The embedding of a modulated pass, and what it learns from the difference to the standard one.
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/layers/embedding.h"
#include "longspan/layers/runs.h"

namespace longspan {

namespace {

// One row of the shift for a whole sequence.
bool of_sequences(const Pass& pass, const Perturbation& error) {
  return error.shift.rows != pass.rows();
}

}  // namespace

void Embedding::perturb(const Pass& pass, const Perturbation& error, Matrix x) const {
  const Place::Part part(ModelPart::kError);
  const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
  if (error.shift.cols == 0) {
    const ConstMatrix through = error.in_vocabulary() ? table_->matrix() : error.through;
    gemm(error.error, through, x, {.add = true, .alpha = error.scale});
    return;
  }
  if (!of_sequences(pass, error)) {
    add(x, error.shift, x);
    return;
  }
  for_each_run(pass, [&](const Run& run) {
    add_mapped_rows(run.sequences(error.shift), {.divide = run.pass.length}, run.rows(x));
  });
}

void Embedding::learn(const Pass& pass, const TokenInput& input, const Perturbation& error,
                      const EmbeddingOutputs& standard, const EmbeddingOutputs& modulated,
                      const Norm::Saved& saved, float scale, Arena& arena) const {
  if (frozen()) return;
  const Arena::Frame frame(arena);
  const Matrix g = arena.matrix(pass.rows(), config_.d_model);
  const auto contrast = [&](ConstMatrix a, ConstMatrix a_err) {
    const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
    difference(scale, a, a_err, g);
    if (config_.masked) mask(pass, g);
  };
  contrast(standard.x, modulated.x);
  if (norm_ != nullptr) {
    {
      const Place::Scope scope(kMeter, Phase::kUpdate);
      norm_->accumulate(saved, g);
    }
    contrast(standard.before_norm, modulated.before_norm);
  }
  accumulate(pass, input, g);
  if (!error.in_vocabulary() || table_->constant) return;
  const Place::Part part(ModelPart::kError);
  const Place::Scope scope(kOverheadMeter, Phase::kUpdate);
  gemm(error.error, g, table_->gradient_matrix(),
       {.transpose_a = true, .add = true, .alpha = error.scale});
}

}  // namespace longspan
