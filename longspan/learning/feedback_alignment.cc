#include "longspan/learning/feedback_alignment.h"

#include <cmath>

#include "longspan/kernels/rows/draw_normal.h"

namespace longspan {

namespace {

// Whether a signal goes back through it.
bool carries(const Model& model, const Parameter& p) {
  switch (p.role) {
    case Role::kProjection:
    case Role::kBranchOutput:
    case Role::kHead:
    case Role::kLastLayer:
    case Role::kAdapter:
    case Role::kOutputAdapter:
      return !p.is_vector;
    case Role::kHidden:
      return !p.is_vector && p.place.block > 0U;  // the first has no layer before it
    case Role::kEmbedding:
      return model.head().has_output() && &p == &model.head().output().weight();
    case Role::kNorm:
    case Role::kMechanism:
      break;
  }
  return false;
}

}  // namespace

// While one lives, signals go back through the B.
class FeedbackAlignment::Use {
 public:
  explicit Use(const FeedbackAlignment& rule) : rule_(rule) {
    for (const Feedback& f : rule_.feedbacks_) f.parameter->feedback = f.values;
  }
  ~Use() {
    for (const Feedback& f : rule_.feedbacks_) f.parameter->feedback = {};
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  const FeedbackAlignment& rule_;
};

FeedbackAlignment::FeedbackAlignment(Model& model, RandomKey seed) : model_(model) {
  for (Parameter& p : model.parameters().all()) {
    if (!carries(model, p)) continue;
    feedbacks_.push_back({&p, {}});
    floats_ += p.size();
  }
  if (model.parameters().allocated()) draw(derive(seed, "feedback"));
}

void FeedbackAlignment::draw(RandomKey seed) {
  drawn_.resize(floats_);
  std::span<float> rest = drawn_;
  for (Feedback& f : feedbacks_) {
    const Parameter& p = *f.parameter;
    f.values = rest.first(p.size());
    rest = rest.subspan(p.size());
    const float deviation = p.initializer.kind == Initializer::Kind::kNormal
                                ? p.initializer.deviation
                                : 1.0F / std::sqrt(static_cast<float>(p.rows));
    draw_normal(derive(seed, p.name), deviation, f.values);
  }
}

LossSum FeedbackAlignment::run(const Batch& batch, RandomKey key, float scale,
                               std::span<History> histories) {
  const LossSum loss = model_.forward(batch, key, scale, histories);
  const Use use(*this);
  model_.backward(batch, scale);
  return loss;
}

}  // namespace longspan
