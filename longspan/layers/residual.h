// A residual sublayer: a branch f, its norm, dropout, and how they are wired.
//
//   post-norm   y = norm(x + f(x))
//   pre-norm    y = x + f(norm(x))
//   sandwich    y = x + norm₂(f(norm(x)))
//   reordered   y = x + norm(f(x))
//   reversible  t ← t + f(norm(x)), where t and x are two streams; neither is kept (models/stack.h)
//   parallel    y = x + f(norm(x)) + g(norm₂(x)) + …, the branches of a layer; shared: one norm for
//               all (models/stack_parallel.cc)
//
// Add & norm with LayerNorm, per row of d: 8d + 5 FLOPs forward, 9d + 2 backward, 3d update.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "longspan/base/model_kind.h"
#include "longspan/layers/branch.h"
#include "longspan/layers/norm.h"

namespace longspan {

struct ResidualSaved {
  Matrix normalized;         // norm(x); empty where the branch reads x itself
  ConstMatrix branch_input;  // what the branch saw: x or norm(x)
  Kept branch;
  Norm::Saved norm;
  Norm::Saved out_norm;  // sandwich: of norm₂
};

// The norms of a residual: `in` reads x, or with post and reordered wiring what the branch gave;
// null: the branch reads x as it is. `out` is norm₂ of a sandwich.
struct ResidualNorms {
  std::unique_ptr<Norm> in;
  std::unique_ptr<Norm> out = nullptr;
};

// What a rule that compares two passes keeps of the standard one.
struct ResidualOutputs {
  Matrix norm;  // norm(x), or y for post-norm; empty where the norm is not trained
  Kept branch;
  Matrix branch_output;  // dropout(f), or the sum it is added into; empty where f is not trained
};

// How it compares them.
struct Contrast {
  float scale = 1.0F;
  // A branch's last matrix learns from what the residual addition gives, not from what the branch
  // gives alone.
  bool sums = false;
};

class Residual {
 public:
  static constexpr std::string_view kNormMeter = "add & norm";

  Residual(std::unique_ptr<Branch> branch, ResidualNorms norms, Wiring wiring, std::size_t d_model,
           float dropout);

  const Branch& branch() const { return *branch_; }
  Branch& branch() { return *branch_; }

  // y = the sublayer of x; y must not be x. With `saved` null nothing is kept. The kept matrices
  // are taken from the arena before y is written, so the caller takes y first.
  void forward(const Pass& pass, ConstMatrix x, Matrix y, ResidualSaved* saved,
               const Beside& beside, Arena& arena) const;
  // g is dy on entry and dx on return. Adds to the gradients of the parameters.
  void backward(const Pass& pass, const ResidualSaved& saved, Matrix g, const Beside& beside,
                Arena& arena) const;

  // Memory for what the parts of a forward leave for backward.
  ResidualSaved save(const Pass& pass, Arena& arena) const;
  // Parallel: what the branch reads, norm(x).
  ConstMatrix read(const Pass& pass, ConstMatrix x, const ResidualSaved* saved, Arena& arena) const;
  // y = f(normalized).
  void run_branch(const Pass& pass, ConstMatrix normalized, Matrix y, ResidualSaved* saved,
                  const Beside& beside, Arena& arena) const;
  // dx = the branch's signal to what it read; adds to the gradients of its parameters.
  void branch_signal(const Pass& pass, const ResidualSaved& saved, ConstMatrix dy, Matrix dx,
                     const Beside& beside, Arena& arena) const {
    const Place::Scope place(branch_->meter_name(), Phase::kBackward);
    branch_backward(pass, saved, dy, dx, beside, arena);
  }
  // dx += the norm's signal; adds to the gradients of its parameters.
  void norm_signal(const ResidualSaved& saved, ConstMatrix dy, Matrix dx) const {
    const Place::Scope place(branch_->meter_name(), Phase::kBackward);
    norm_backward(saved.norm, dy, dx, /*add=*/true);
  }
  bool normed() const { return norm_ != nullptr; }

  // Reversible: target += f(norm(source)).
  void add_to(const Pass& pass, ConstMatrix source, Matrix target, const Beside& beside,
              Arena& arena) const;
  // Two streams and their gradients, as a sublayer sees them.
  struct Streams {
    ConstMatrix source;
    Matrix target;
    ConstMatrix target_gradient;
    Matrix source_gradient;
  };
  // Reversible, backwards: computes f(norm(source)) again, takes it off target, and sends
  // target_gradient through f into source_gradient (+=) and the parameters.
  void undo(const Pass& pass, const Streams& streams, const Beside& beside, Arena& arena) const;

  // Two passes compared. y = the sublayer of x, or for reversible wiring y += f(norm(x)).
  // The memory for the standard pass that writes y:
  ResidualOutputs take_outputs(const Pass& pass, Matrix y, Arena& arena) const;
  void observe(const Pass& pass, ConstMatrix x, Matrix y, const ResidualOutputs& outputs,
               const Contrast& contrast, const Beside& beside, Arena& arena) const;
  // The modulated pass; every parameter learns from scale·(a − a_err) and what its layer receives
  // here. Spoils the outputs, y of the standard pass excepted.
  void learn(const Pass& pass, ConstMatrix x, Matrix y, const ResidualOutputs& outputs,
             const Contrast& contrast, const Beside& beside, Arena& arena) const;

 private:
  bool drops(const Pass& pass) const { return pass.training && dropout_ > 0.0F; }
  // s = dropout(f(x)).
  void branch_forward(const BranchForward& call) const;
  // dx = backward of dropout∘f at dy; accumulates f's parameters.
  void branch_backward(const Pass& pass, const ResidualSaved& saved, ConstMatrix dy, Matrix dx,
                       const Beside& beside, Arena& arena) const;
  void apply_dropout(const Pass& pass, ConstMatrix x, Matrix y, Phase phase) const;
  bool post_norm() const { return wiring_ == Wiring::kPostNorm; }
  // Whether the branch reads x itself, which must be kept.
  bool reads_input() const { return post_norm() || wiring_ == Wiring::kReordered; }
  // The sublayer's arithmetic: `normalized` receives norm(x) unless post-norm, call.y what the
  // branch gives; call.x is x.
  void combine(const BranchForward& call, Matrix y, const Norm::Saved& norm_saved,
               Matrix normalized, const Contrast& contrast) const;
  // What a rule that compares two passes asks of the branch; throws Error where it cannot.
  const Contrastive& compared() const;
  void norm_forward(ConstMatrix x, Matrix y, const Norm::Saved& saved) const;
  void norm_backward(const Norm::Saved& saved, ConstMatrix dy, Matrix dx, bool add) const;
  static void norm_back(const Norm& norm, const Norm::Saved& saved, ConstMatrix dy, Matrix dx,
                        bool add);

  std::unique_ptr<Branch> branch_;
  std::unique_ptr<Norm> norm_;      // null: none, the branch reads a copy of x
  std::unique_ptr<Norm> out_norm_;  // of a sandwich
  Wiring wiring_;
  std::size_t d_model_;
  float dropout_;  // 0 where the branch takes none
};

}  // namespace longspan
