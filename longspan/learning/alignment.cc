#include "longspan/learning/alignment.h"

#include <algorithm>
#include <cmath>

#include "longspan/learning/backprop.h"

namespace longspan {

std::vector<Alignment> measure_alignment(Model& model, Rule& rule, const Batch& batch,
                                         RandomKey key) {
  const auto gradients = model.parameters().gradients();
  const float scale =
      1.0F / static_cast<float>(std::max<std::size_t>(1, model.loss().count(batch)));
  std::ranges::fill(gradients, 0.0F);
  Backprop(model).accumulate(batch, key, scale);
  const std::vector<float> exact(gradients.begin(), gradients.end());
  std::ranges::fill(gradients, 0.0F);
  rule.accumulate(batch, key, scale);
  std::vector<Alignment> all;
  for (const Parameter& p : model.parameters().all()) {
    if (p.constant) continue;
    const float* const ours = p.gradient.data();
    const float* const theirs = exact.data() + (ours - gradients.data());
    double dot = 0.0;
    double ours2 = 0.0;
    double theirs2 = 0.0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      dot += static_cast<double>(ours[i]) * theirs[i];
      ours2 += static_cast<double>(ours[i]) * ours[i];
      theirs2 += static_cast<double>(theirs[i]) * theirs[i];
    }
    Alignment a{p.name};
    if (ours2 > 0.0 && theirs2 > 0.0) a.cosine = dot / std::sqrt(ours2 * theirs2);
    if (theirs2 > 0.0) a.ratio = std::sqrt(ours2 / theirs2);
    all.push_back(a);
  }
  std::ranges::fill(gradients, 0.0F);
  return all;
}

double mean_cosine(const Model& model, const std::vector<Alignment>& alignments) {
  double sum = 0.0;
  std::size_t count = 0;
  for (const Parameter& p : model.parameters().all()) {
    const auto at = std::ranges::find(alignments, p.name, &Alignment::parameter);
    if (p.is_vector || at == alignments.end()) continue;
    sum += at->cosine;
    ++count;
  }
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

}  // namespace longspan
