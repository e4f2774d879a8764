#include "longspan/base/published_hawkes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "longspan/base/random.h"

namespace longspan {

namespace {

constexpr double kSaturated = 20.0;

// A value with its derivatives in the argument and in β.
struct PublishedRate {
  double value = 0.0;
  double d_x = 0.0;
  double d_beta = 0.0;
};

PublishedRate published_rate(double x, double beta) {
  const double z = std::min(beta * x, kSaturated);
  const double value = std::log1p(std::exp(z)) / beta;
  const double slope = beta * x > kSaturated ? 0.0 : 1.0 / (1.0 + std::exp(-z));
  return {value, slope, (slope * x - value) / beta};
}

class PublishedWalk {
 public:
  PublishedWalk(const PublishedHawkes& model, const PublishedSequence& sequence, ConstMatrix scores)
      : model_(model), in_(sequence), types_((scores.cols - 1) / 2) {}

  PublishedSums sums;

  // Adds row j, and its gradient to `d`.
  void add(std::size_t j, std::span<const float> scores, std::span<double> d) {
    if (j < in_.types.size()) {
      add_event(j, scores, d);
      if (j > 0) add_rest(j, scores, d);
    }
    if (j + 1 < in_.types.size()) add_type(j, scores.subspan(types_, types_), d.subspan(types_));
    if (j + 1 < in_.times.size()) add_time(j, scores[2 * types_], d[2 * types_]);
  }

 private:
  std::size_t type(std::size_t j) const { return static_cast<std::size_t>(in_.types[j]); }

  void add_event(std::size_t j, std::span<const float> scores, std::span<double> d) {
    constexpr double kNever = 1e-9;
    const PublishedRate rate = published_rate(scores[type(j)], model_.beta);
    sums.events += std::log(rate.value + kNever);
    d[type(j)] -= rate.d_x / (rate.value + kNever);
    sums.d_beta -= rate.d_beta / (rate.value + kNever);
  }

  void add_rest(std::size_t j, std::span<const float> scores, std::span<double> d) {
    const double before = in_.times[j - 1];
    const double gap = in_.times[j] - before;
    const double each = gap / static_cast<double>(kPublishedDraws);
    const RandomKey key = derive(std::bit_cast<std::uint32_t>(in_.times[j]),
                                 std::bit_cast<std::uint32_t>(in_.times[j - 1]));
    for (std::size_t i = 0; i < kPublishedDraws; ++i) {
      const double u =
          in_.uniform.empty() ? random_uniform(key, i) : in_.uniform[(j - 1) * kPublishedDraws + i];
      const double passed = u * gap / (before + 1.0);
      const PublishedRate rate =
          published_rate(scores[type(j)] + model_.alpha * passed, model_.beta);
      sums.rest += each * rate.value;
      d[type(j)] += each * rate.d_x;
      sums.d_alpha += each * rate.d_x * passed;
      sums.d_beta += each * rate.d_beta;
    }
  }

  void add_type(std::size_t j, std::span<const float> scores, std::span<double> d) {
    const double highest = *std::ranges::max_element(scores);
    double sum = 0.0;
    for (const float c : scores) sum += std::exp(c - highest);
    const double others = model_.smoothing / static_cast<double>(types_);
    const double all = 1.0 - model_.smoothing + others * static_cast<double>(types_ - 1);
    for (std::size_t k = 0; k < types_; ++k) {
      const double target = k == type(j + 1) ? 1.0 - model_.smoothing : others;
      sums.types -= target * (scores[k] - highest - std::log(sum));
      d[k] += all * std::exp(scores[k] - highest) / sum - target;
    }
    ++sums.counted;
    const auto likeliest = std::ranges::max_element(scores) - scores.begin();
    sums.correct += static_cast<std::size_t>(likeliest) == type(j + 1) ? 1 : 0;
  }

  void add_time(std::size_t j, double predicted, double& d) {
    const bool padding = j >= in_.types.size();  // where nothing is predicted
    const double gap = static_cast<double>(in_.times[j + 1]) - in_.times[j];
    const double error = (padding ? 0.0 : predicted) - gap;
    sums.times += error * error;
    if (!padding) d += 2.0 * error / 100.0;
  }

  const PublishedHawkes& model_;
  const PublishedSequence& in_;
  std::size_t types_;
};

}  // namespace

void PublishedSums::add(const PublishedSums& other) {
  events += other.events;
  rest += other.rest;
  types += other.types;
  times += other.times;
  counted += other.counted;
  correct += other.correct;
  d_alpha += other.d_alpha;
  d_beta += other.d_beta;
}

PublishedSums published_hawkes(const PublishedHawkes& model, const PublishedSequence& sequence,
                               ConstMatrix scores, const Matrix* gradient, double scale) {
  PublishedWalk walk(model, sequence, scores);
  std::vector<double> d(scores.cols);
  for (std::size_t j = 0; j < scores.rows; ++j) {
    std::ranges::fill(d, 0.0);
    walk.add(j, scores.row(j), d);
    if (gradient == nullptr) continue;
    float* const row = gradient->row_data(j);
    for (std::size_t i = 0; i < d.size(); ++i) row[i] = static_cast<float>(scale * d[i]);
  }
  return walk.sums;
}

}  // namespace longspan
