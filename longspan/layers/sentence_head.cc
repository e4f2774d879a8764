#include "longspan/layers/sentence_head.h"

#include "longspan/kernels/rows/vector.h"
#include "longspan/layers/runs.h"

namespace longspan {

SentenceHead::SentenceHead(Parameters& parameters, const std::string& name,
                           const SentenceHeadConfig& config)
    : pooler_(parameters, name + ".pooler", config.d_model, config.d_model, /*bias=*/true,
              config.deviation, Role::kHead),
      output_(parameters, name + ".output", config.d_model, config.classes, /*bias=*/true,
              config.deviation, Role::kHead) {}

SentenceHead::Saved SentenceHead::forward(const Pass& pass, ConstMatrix x, bool saves,
                                          Arena& arena) const {
  const Place::Scope scope(kMeter, Phase::kForward);
  Saved saved;
  saved.first = arena.matrix(pass.batch, x.cols);
  for_each_run(pass, [&](const Run& run) {
    copy(first_rows(run.rows(x), run.pass.length), run.sequences(saved.first));
  });
  if (saves) saved.z = arena.matrix(pass.batch, x.cols);
  saved.pooled = arena.matrix(pass.batch, x.cols);
  pooler_.forward(saved.first, Activation::kTanh, saved.z, saved.pooled);
  saved.logits = arena.matrix(pass.batch, output_.out());
  output_.forward(saved.pooled, saved.logits);
  return saved;
}

void SentenceHead::backward(const Pass& pass, const Saved& saved, Matrix dx, Arena& arena) const {
  const Arena::Frame frame(arena);
  const Matrix g = arena.matrix(pass.batch, dx.cols);
  const Matrix dfirst = arena.matrix(pass.batch, dx.cols);
  {
    const Place::Scope scope(kMeter, Phase::kBackward);
    output_.backward(saved.logits, g);
    activation_backward(Activation::kTanh, saved.z, g, g);
    pooler_.backward(g, dfirst);
    for_each_run(pass, [&](const Run& run) {
      const Matrix first = first_rows(run.rows(dx), run.pass.length);
      add(run.sequences(dfirst), first, first);
    });
  }
  const Place::Scope scope(kMeter, Phase::kUpdate);
  output_.accumulate(saved.pooled, saved.logits);
  pooler_.accumulate(saved.first, g);
}

}  // namespace longspan
