#include "longspan/testing/check_branch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "longspan/base/meter.h"
#include "longspan/testing/dry_branch.h"

namespace longspan::testing {

namespace {

// A branch with its inputs, outputs and gradients.
class Harness {
 public:
  explicit Harness(const BranchCase& c)
      : c_(c),
        pass_(c.pass),
        beside_(c.beside),
        x_(random_values(pass_.rows() * c.d_model, 41)),
        context_(random_values(pass_.context_rows() * c.d_model, 42)),
        dy_(random_values(pass_.rows() * c.d_model, 43)),
        y_(x_.size()),
        dx_(x_.size()),
        context_gradient_(context_.size()),
        arena_(1U << 24U) {
    if (pass_.context_length > 0) {
      pass_.context = ConstMatrix(context_.data(), pass_.context_rows(), c.d_model);
      beside_.context_gradient = Matrix(context_gradient_.data(), pass_.context_rows(), c.d_model);
    }
    randomize(*c.parameters, 44);
    weights_ = weights_of(*c.parameters);
    weights_.set("x", pass_.rows(), c.d_model, x_);
    if (!context_.empty()) weights_.set("context", pass_.context_rows(), c.d_model, context_);
  }

  // One training step of the branch, with what it took from the arena.
  BranchMemory run() {
    const Meter::Use use(meter_);
    arena_.clear();
    std::ranges::fill(y_, std::numeric_limits<float>::quiet_NaN());
    std::ranges::fill(dx_, std::numeric_limits<float>::quiet_NaN());
    BranchMemory taken;
    const Kept saved = c_.branch->save(pass_, arena_);
    taken.saved = arena_.used();
    arena_.reset_peak();
    {
      const Place::Scope scope("branch", Phase::kForward);
      c_.branch->forward({pass_, rows(x_), rows(y_), &saved, beside_, arena_});
    }
    EXPECT_EQ(arena_.used(), taken.saved) << "forward kept more than save() took";
    taken.forward_scratch = arena_.peak() - taken.saved;
    arena_.reset_peak();
    const Arena::Frame frame(arena_);
    Kept signals;
    {
      const Place::Scope scope("branch", Phase::kBackward);
      signals = c_.branch->backward({pass_, saved, rows(dy_), rows(dx_), beside_, arena_});
    }
    {
      const Place::Scope scope("branch", Phase::kUpdate);
      c_.branch->accumulate({pass_, rows(x_), saved, rows(dy_), signals, beside_});
    }
    taken.backward_scratch = arena_.peak() - taken.saved;
    return taken;
  }

  void expect_values() {
    std::vector<double> want;
    for (const Complex& v : c_.reference(weights_).data) want.push_back(v.real());
    expect_close(y_, want, 3e-6, "y");
    const std::vector<float> training = y_;
    arena_.clear();
    arena_.reset_peak();
    c_.branch->forward({pass_, rows(x_), rows(y_), nullptr, beside_, arena_});
    EXPECT_EQ(y_, training) << "inference differs from training";
    EXPECT_EQ(arena_.used(), 0U);
    EXPECT_EQ(arena_.peak(),
              walk_branch(*c_.branch, pass_, c_.d_model, beside_).memory.inference_scratch);
  }

  Complex loss(const Weights& weights) const {
    const Tensor<Complex> y = c_.reference(weights);
    Complex sum(0.0);
    for (std::size_t i = 0; i < dy_.size(); ++i) sum += y.data[i] * static_cast<double>(dy_[i]);
    return sum;
  }

  void expect_derivatives() {
    const ReferenceLoss reference = [this](const Weights& w) { return loss(w); };
    expect_gradients(
        *c_.parameters, weights_, [this] { run(); }, reference);
    expect_gradient("x", dx_, weights_, reference, 16);
    if (context_.empty()) return;
    std::ranges::fill(context_gradient_, 0.0F);
    run();
    expect_gradient("context", context_gradient_, weights_, reference, 16);
    const std::vector<float> once = context_gradient_;
    const std::vector<float> start = random_values(once.size(), 45);
    context_gradient_ = start;
    run();
    for (std::size_t i = 0; i < once.size(); ++i) {
      EXPECT_NEAR(context_gradient_[i], start[i] + once[i], 1e-5F) << "context gradient " << i;
    }
  }

  void expect_cost() {
    const Cost cost = walk_branch(*c_.branch, pass_, c_.d_model, beside_).cost;
    meter_.clear();
    run();
    const std::array<std::pair<Phase, const Work*>, 3> phases = {
        {{Phase::kForward, &cost.forward},
         {Phase::kBackward, &cost.backward},
         {Phase::kUpdate, &cost.update}}};
    for (const auto& [phase, predicted] : phases) {
      const Work counted = meter_.at("branch", phase);
      EXPECT_EQ(counted.maccs, predicted->maccs) << name_of(phase);
      for (std::size_t k = 0; k < kKinds; ++k) {
        EXPECT_EQ(counted.other[k], predicted->other[k])
            << name_of(phase) << ' ' << name_of(static_cast<Kind>(k));
      }
    }
  }

  const Pass& pass() const { return pass_; }

 private:
  Matrix rows(std::vector<float>& v) const { return {v.data(), pass_.rows(), c_.d_model}; }

  const BranchCase& c_;
  Pass pass_;
  Beside beside_;
  std::vector<float> x_;
  std::vector<float> context_;
  std::vector<float> dy_;
  std::vector<float> y_;
  std::vector<float> dx_;
  std::vector<float> context_gradient_;
  Arena arena_;
  Meter meter_;
  Weights weights_;
};

}  // namespace

void expect_branch(const BranchCase& c) {
  Harness harness(c);
  const BranchMemory taken = harness.run();
  const BranchMemory predicted = walk_branch(*c.branch, harness.pass(), c.d_model, c.beside).memory;
  EXPECT_EQ(taken.saved, predicted.saved);
  EXPECT_EQ(taken.forward_scratch, predicted.forward_scratch);
  EXPECT_EQ(taken.backward_scratch, predicted.backward_scratch);
  harness.expect_values();
  harness.expect_derivatives();
  harness.expect_cost();
}

}  // namespace longspan::testing
