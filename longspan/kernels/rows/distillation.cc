// Plain loops in double precision: rows that count are few beside those that the models compute.
#include "longspan/kernels/rows/distillation.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/base/integers.h"
#include "longspan/kernels/pieces.h"

namespace longspan {

namespace {

// log Σ e^(x/T)
double log_sum(std::span<const float> x, double temperature) {
  const double most = *std::ranges::max_element(x);
  double sum = 0.0;
  for (const float value : x) sum += std::exp((value - most) / temperature);
  return std::log(sum) + most / temperature;
}

CrossEntropy distil_row(std::span<float> s, std::span<const float> t, std::size_t target,
                        const Softening& softening, double scale) {
  const double T = softening.temperature;
  const double w = softening.weight;
  const double all_s = log_sum(s, 1.0);
  const double all_q = log_sum(s, T);
  const double all_p = log_sum(t, T);
  const bool correct =
      std::ranges::max_element(s) == s.begin() + static_cast<std::ptrdiff_t>(target);
  const double hard = all_s - s[target];
  double divergence = 0.0;
  for (std::size_t j = 0; j < s.size(); ++j) {
    const double log_p = t[j] / T - all_p;
    const double log_q = s[j] / T - all_q;
    const double p = std::exp(log_p);
    divergence += p == 0.0 ? 0.0 : p * (log_p - log_q);
    const double o = std::exp(s[j] - all_s) - (j == target ? 1.0 : 0.0);
    s[j] = static_cast<float>(scale * ((1.0 - w) * o + w * T * (std::exp(log_q) - p)));
  }
  return {(1.0 - w) * hard + w * T * T * divergence, 1, correct ? 1U : 0U};
}

struct Cosine {
  double h = 0.0;  // |h|
  double g = 0.0;
  double value = 0.0;  // 0 where one of them has no direction
};

Cosine cosine_of(std::span<const float> h, std::span<const float> g) {
  double hh = 0.0;
  double gg = 0.0;
  double hg = 0.0;
  for (std::size_t j = 0; j < h.size(); ++j) {
    hh += static_cast<double>(h[j]) * h[j];
    gg += static_cast<double>(g[j]) * g[j];
    hg += static_cast<double>(h[j]) * g[j];
  }
  Cosine c{std::sqrt(hh), std::sqrt(gg)};
  if (c.h > 0.0 && c.g > 0.0) c.value = hg / (c.h * c.g);
  return c;
}

void require_fit(ConstMatrix own, ConstMatrix teacher, const Targets& targets) {
  require(own.rows == teacher.rows && own.cols == teacher.cols && targets.ids.size() == own.rows,
          "[distillation] {}×{} numbers of a student, {}×{} of its teacher and {} targets; need as "
          "many of both and a target a row",
          own.rows, own.cols, teacher.rows, teacher.cols, targets.ids.size());
}

// Σ of body(row) over the rows that count, in blocks, at most kBlocks, so that their sums fit on the
// stack and are added in order.
template <class Sum, class Body>
Sum over_counted(const Targets& targets, std::size_t cols, const Body& body) {
  constexpr std::size_t kBlocks = 128;
  constexpr std::size_t kSlow = 16;  // an element takes as long as so many of other loops
  const std::size_t rows = targets.ids.size();
  const std::size_t grain =
      std::max(detail::rows_per_piece(kSlow * cols), divide_up(rows, kBlocks));
  std::array<Sum, kBlocks> parts{};
  detail::in_pieces(rows, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) body(r, parts[begin / grain]);
  });
  for (std::size_t i = 1; i < kBlocks; ++i) parts[0] += parts[i];
  return parts[0];
}

struct LossParts : CrossEntropy {
  LossParts& operator+=(const CrossEntropy& more) {
    loss += more.loss;
    counted += more.counted;
    correct += more.correct;
    return *this;
  }
};

Call states_call(Op op, ConstMatrix h, const Targets& targets, std::uint64_t maccs_each) {
  Call call{.op = op, .rows = targets.counted, .cols = h.cols};
  call.work = maccs(maccs_each * targets.counted * h.cols);
  call.work.bytes_of(Kind::kMatmul) = 4 * (maccs_each - 1) * targets.counted * h.cols;
  return call;
}

}  // namespace

CrossEntropy distil(Matrix scores, ConstMatrix teacher, const Targets& targets,
                    const Softening& softening, float scale) {
  require_fit(scores, teacher, targets);
  const Called called([&] {
    return row_call(Op::kLossForward, {}, targets.counted, scores.cols, Kind::kSoftmax, 24, 12);
  });
  if (called.dry()) return {};
  return over_counted<LossParts>(targets, scores.cols, [&](std::size_t r, LossParts& sum) {
    const std::int32_t target = targets.ids[r];
    if (target == kIgnoredTarget) {
      std::ranges::fill(scores.row(r), 0.0F);
      return;
    }
    assert(target >= 0 && static_cast<std::size_t>(target) < scores.cols);
    sum += distil_row(scores.row(r), teacher.row(r), static_cast<std::size_t>(target), softening,
                      scale);
  });
}

double cosine_distance(ConstMatrix h, ConstMatrix g, const Targets& targets) {
  require_fit(h, g, targets);
  const Called called([&] { return states_call(Op::kLoss, h, targets, 3); });
  if (called.dry()) return 0.0;
  return over_counted<double>(targets, h.cols, [&](std::size_t r, double& sum) {
    if (targets.ids[r] != kIgnoredTarget) sum += 1.0 - cosine_of(h.row(r), g.row(r)).value;
  });
}

void cosine_distance_backward(ConstMatrix h, ConstMatrix g, const Targets& targets, float scale,
                              Matrix dh) {
  require_fit(h, g, targets);
  const Called called([&] { return states_call(Op::kLossBackward, h, targets, 5); });
  if (called.dry()) return;
  over_counted<double>(targets, h.cols, [&](std::size_t r, double& /*sum*/) {
    if (targets.ids[r] == kIgnoredTarget) return;
    const Cosine c = cosine_of(h.row(r), g.row(r));
    if (!(c.h > 0.0 && c.g > 0.0)) return;
    const double of_h = scale * c.value / (c.h * c.h);
    const double of_g = scale / (c.h * c.g);
    for (std::size_t j = 0; j < h.cols; ++j) {
      dh.row(r)[j] += static_cast<float>(of_h * h.row(r)[j] - of_g * g.row(r)[j]);
    }
  });
}

}  // namespace longspan
