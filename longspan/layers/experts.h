// A mixture of experts: every token is sent to the feed-forwards that the router prefers
// (Switch Transformer, arXiv:2101.03961, for one expert; GShard, arXiv:2006.16668, for two).
//
//   r = x·W_rᵀ,  p = softmax(r),  e_1 … e_k the experts with the k largest p
//   y = Σ_j g_j·FFN_{e_j}(x),  g_j = p[e_j];  k > 1 and `normalize`: p[e_j]/Σ_i p[e_i]
//   an expert takes C = ⌈factor·k·T/E⌉ of the T real tokens: all first choices in the order of the
//   rows, then all second ones, …; the others are dropped and contribute nothing
//   loss = α·E·Σ_e f_e·P_e,  f_e = (tokens whose first choice is e)/T,  P_e = (Σ_t p[t, e])/T
//
//   dg_j = dy·FFN_{e_j}(x);  p receives dg and, from the loss, α·E·f_e/T at every token
//   dx = Σ_j (∂FFN_{e_j}/∂x)ᵀ·g_j·dy + dr·W_r
//   dW_r += drᵀ·x;  an expert's parameters as in feed_forward.h, from g_j·dy
//
// The choice has no gradient, nor have f_e. Padding is not routed and gives zeros.
//
// For M rows, T of them real, of which experts computed S (a token with two choices counts twice),
// and F = 2·d·f, gated 3·d·f:
//   MACCs  forward and update M·d·E + S·F each, backward that and S·d
//   FLOPs  forward as feed_forward.h for S rows + 2·S·d + T·(5E + k·(E + 1)), and T·(2k − 1) if the
//          gates are divided, and in training M·E + 2·E for the loss
//          backward as feed_forward.h + 2·S·d + T·(5E + k), and T·4k if divided
//          update as feed_forward.h
//
// Memory goes by the most rows that experts can take, min(k·T, E·C), whatever was chosen.
//
// Rules that compare two passes are refused: a token may go to another expert in the second, and
// there is nothing to take the difference of.
#pragma once

#include <string>
#include <vector>

#include "longspan/base/number.h"
#include "longspan/layers/feed_forward.h"
#include "longspan/layers/routing.h"

namespace longspan {

struct ExpertsConfig {
  std::size_t experts = 8;  // E
  std::size_t top = 1;      // k
  double capacity = 1.25;   // the factor of C
  double balance = 0.01;    // α
  bool normalize = true;    // of several choices, the gates sum to 1

  bool operator==(const ExpertsConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("experts", experts, "feed-forwards to choose among", from_to(1, 4096));
    see("top", top, "experts that each token goes to", from_to(1, 4096));
    see("capacity", capacity, "places of an expert, in even shares of the tokens",
        above_to(0, 1e6));
    see("balance", balance, "weight of the loss that keeps loads even", from_to(0, 1000));
    see("normalize", normalize, "of several choices, gates sum to 1");
  }
};

class Experts final : public Branch {
 public:
  // Every expert is a feed-forward like `each`, called name.expert.0, name.expert.1, …
  Experts(Parameters& parameters, const std::string& name, const ExpertsConfig& config,
          const FeedForwardConfig& each);

  // A kind of feed-forward, and filed as one.
  std::string_view meter_name() const override { return FeedForward::kMeter; }
  void check(const Pass& /*pass*/) const override {}
  Kept save(const Pass& pass, Arena& arena) const override;
  void forward(const BranchForward& call) const override;
  Kept backward(const BranchBackward& call) const override;
  void accumulate(const BranchUpdate& call) const override;

  bool trained() const override;
  std::size_t experts() const override { return experts_.size(); }
  std::size_t chosen_experts() const override { return config_.top; }
  bool packs() const override { return true; }

 private:
  // Kept from forward, beside the layers inside: z, h, outputs [slots, d], the routes; signals of
  // backward: dz, and at the router's output [rows, experts], at the experts' outputs and, as room
  // for what they received, inputs [slots, d].
  enum Part : std::size_t { kZ, kH, kOutputs, kProbabilities, kGates, kScores, kInputs };
  enum Index : std::size_t { kChosen, kSlots, kSources, kLoads, kFirsts };
  struct Expert {
    Linear in;  // gated: rows [gate; up]
    Linear out;
  };
  std::size_t hidden() const { return each_.gated ? 2 * each_.d_ff : each_.d_ff; }
  RouteOptions route_options(const Pass& pass) const;
  // What experts keep whether or not there is a backward.
  void take_routes(const Pass& pass, Arena& arena, Kept& kept) const;
  static Routes routes_of(const Kept& kept);
  // Calls body(expert, first slot, rows) for each that has any; returns how many rows there are.
  template <class Body>
  std::size_t for_each_expert(const Pass& pass, const Routes& routes, const Routing* routing,
                              const Body& body) const;
  std::size_t slots_taken(const Pass& pass, const Routes& routes, const Routing* routing) const;
  // α·E/T²
  double balance_factor(const Pass& pass) const;
  void add_loss(const BranchForward& call, const Routes& routes) const;
  // y = FFN(x) of one expert; y may be x. z may be empty unless gated.
  void run(const Expert& expert, ConstMatrix x, Matrix z, Matrix h, Matrix y) const;
  // dh, dz and dx of one expert; dh may be dz unless gated.
  void run_backward(const Expert& expert, ConstMatrix z, ConstMatrix dy, Matrix dh, Matrix dz,
                    Matrix dx) const;

  ExpertsConfig config_;
  FeedForwardConfig each_;
  Linear router_;
  std::vector<Expert> experts_;
};

}  // namespace longspan
