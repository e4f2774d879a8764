#include "longspan/layers/matching.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "longspan/base/error.h"
#include "longspan/base/place.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/softmax.h"
#include "longspan/kernels/rows/unit_rows.h"

namespace longspan {

namespace {

// Every row has its own number for a target.
Targets partners(const Matching::Saved& saved) { return {saved.partner, saved.partner.size()}; }

LossSum half_of_both(const CrossEntropy& rows, const CrossEntropy& columns) {
  return {0.5 * (rows.loss + columns.loss), rows.counted, rows.correct};
}

}  // namespace

Matching::Matching(Parameters& parameters, const std::string& name, float initial)
    : scale_(&parameters.declare(name + ".log_scale", 1, Initializer::zeros(), Role::kLastLayer)),
      initial_(initial) {}

void Matching::initialize() const { scale_->value[0] = initial_; }

float Matching::factor() const { return Dry::on() ? 1.0F : std::exp(scale_->value[0]); }

Matching::Saved Matching::compare(ConstMatrix a, ConstMatrix b, Arena& arena) const {
  require(a.rows == b.rows && a.cols == b.cols, "[matching] {}x{} and {}x{}; need pairs", a.rows,
          a.cols, b.rows, b.cols);
  const Place::Scope scope(kMeter, Phase::kForward);
  const std::size_t pairs = a.rows;
  Saved saved{.a = arena.matrix(pairs, a.cols),
              .b = arena.matrix(pairs, a.cols),
              .of_a = arena.take<float>(pairs),
              .of_b = arena.take<float>(pairs),
              .a_to_b = arena.matrix(pairs, pairs),
              .b_to_a = arena.matrix(pairs, pairs),
              .partner = arena.take<std::int32_t>(pairs)};
  if (!Dry::on()) std::iota(saved.partner.begin(), saved.partner.end(), 0);
  unit_rows(a, saved.a, saved.of_a);
  unit_rows(b, saved.b, saved.of_b);
  const GemmOptions options{.transpose_b = true, .alpha = factor()};
  gemm(saved.a, saved.b, saved.a_to_b, options);
  gemm(saved.b, saved.a, saved.b_to_a, options);
  return saved;
}

LossSum Matching::measure(const Saved& saved) const {
  const Place::Scope scope(kMeter, Phase::kForward);
  return half_of_both(cross_entropy(saved.a_to_b, partners(saved)),
                      cross_entropy(saved.b_to_a, partners(saved)));
}

LossSum Matching::predict(const Saved& saved, float scale) const {
  const Place::Scope scope(kMeter, Phase::kForward);
  const LossSum sum =
      half_of_both(cross_entropy_forward(saved.a_to_b, partners(saved), 0.5F * scale),
                   cross_entropy_forward(saved.b_to_a, partners(saved), 0.5F * scale));
  const Place::Scope back(kMeter, Phase::kBackward);
  cross_entropy_backward(saved.a_to_b, partners(saved), 0.5F * scale);
  cross_entropy_backward(saved.b_to_a, partners(saved), 0.5F * scale);
  return sum;
}

void Matching::backward(const Saved& saved, Matrix da, Matrix db) const {
  const Place::Scope scope(kMeter, Phase::kBackward);
  const float alpha = factor();
  gemm(saved.a_to_b, saved.b, da, {.alpha = alpha});
  gemm(saved.b_to_a, saved.b, da, {.transpose_a = true, .add = true, .alpha = alpha});
  gemm(saved.b_to_a, saved.a, db, {.alpha = alpha});
  gemm(saved.a_to_b, saved.a, db, {.transpose_a = true, .add = true, .alpha = alpha});
  if (!scale_->constant) {
    const Place::Scope update(kMeter, Phase::kUpdate);
    const auto own = static_cast<float>(sum_of_products(da, saved.a));
    if (!Dry::on()) scale_->gradient[0] += own;
  }
  unit_rows_backward(saved.a, saved.of_a, da, da);
  unit_rows_backward(saved.b, saved.of_b, db, db);
}

}  // namespace longspan
