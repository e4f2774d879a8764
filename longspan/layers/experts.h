// A mixture of experts: every token is sent to the feed-forwards that the router prefers
// (Switch Transformer, arXiv:2101.03961, for one expert; GShard, arXiv:2006.16668, for two;
// DeepSeek, arXiv:2401.06066 and 2412.19437, for many beside shared ones).
//
//   r = x·W_rᵀ + b_r,  s = softmax(r) or σ(r)
//   e_1 … e_k the experts with the k largest s + b, b a constant; of groups of experts, in the best
//   y = Σ_j g_j·FFN_{e_j}(x) + FFN_shared(x)·σ(x·w),  g_j = c·s[e_j] or c·s[e_j]/Σ_i s[e_i]
//   an expert takes C = ⌈factor·k·T/E⌉ of the T routed tokens: all first choices in the order of the
//   rows, then all second ones, …; the others are dropped and contribute nothing, or pass: g_j·x
//
//   dg_j = dy·FFN_{e_j}(x);  s receives dg and what the losses send
//   dx = Σ_j (∂FFN_{e_j}/∂x)ᵀ·g_j·dy + dr·W_r + what the shared ones and their gate send
//   dW_r += drᵀ·x;  an expert's parameters as in feed_forward.h, from g_j·dy
//
// The choice has no gradient. Padding is not routed and gives zeros, unless `padding`. Losses:
//
//   layer      α·E·Σ_e f_e·P_e,  f_e = (tokens whose first choice is e)/T,  P_e = (Σ_t s[t, e])/T
//   stack      the same of all choices and all layers of a stack together (Mixtral)
//   sequences  α·E/B·Σ_b Σ_e f_be·P_be of each sequence in all layers, of the choices that experts
//              took, the others counting for expert 0 (Switch as released)
//   and ζ·(the mean of (log Σ_e e^r[t, e])²) over the same tokens (ST-MoE, arXiv:2202.08906)
//
// f has no gradient. Padding counts only for `sequences`, and where it is routed.
//
// For M rows, T of them routed, of which experts computed S (a token with two choices counts twice)
// and S' are in slots, which is S, or k·T where choices pass, and F = 2·d·f, gated 3·d·f:
//   MACCs  forward and update M·d·E + S·F each, backward that and S'·d
//   FLOPs  forward as feed_forward.h for S rows + 2·S'·d + what kernels/rows/routing.h says of T
//          rows, and in training for the losses; M·E for b_r
//          backward as feed_forward.h + 2·S'·d + what that header says;  update as feed_forward.h
//   shared experts as feed_forward.h for M rows, and M·d; their gate M·d MACCs in each phase and
//          backward once more, 4·M + M·d FLOPs forward instead of M·d, 3·M + M·d backward
//
// Memory goes by the most rows that experts can take, min(k·T, E·C), whatever was chosen.
//
// Rules that compare two passes are refused: a token may go to another expert in the second, and
// there is nothing to take the difference of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "longspan/base/choice.h"
#include "longspan/base/number.h"
#include "longspan/layers/feed_forward.h"
#include "longspan/layers/routing.h"

namespace longspan {

enum class Overflow : std::uint8_t { kDrop, kPass };
constexpr Names<2> names_of(Overflow /*kind*/) { return {"experts", "overflow", {"drop", "pass"}}; }

enum class BalanceOf : std::uint8_t { kLayer, kStack, kSequences };
constexpr Names<3> names_of(BalanceOf /*kind*/) {
  return {"experts", "balance", {"layer", "stack", "sequences"}};
}

struct ExpertsConfig {
  std::size_t experts = 8;  // E
  std::size_t top = 1;      // k
  double capacity = 1.25;   // the factor of C
  double balance = 0.01;    // α
  bool normalize = true;    // of several choices, the gates sum to 1
  bool normalize_one = false;
  double scaling = 1.0;  // c
  Choice<RouteScore> score = RouteScore::kSoftmax;
  bool router_bias = false;  // b_r
  bool correction = false;   // b
  std::size_t groups = 1;
  std::size_t top_groups = 1;
  Choice<GroupScore> group_score = GroupScore::kBest;
  std::size_t width = 0;   // f
  std::size_t shared = 0;  // f of the shared ones, all together
  bool shared_gate = false;
  std::size_t places = 0;
  Choice<Overflow> overflow = Overflow::kDrop;
  bool padding = false;
  Choice<BalanceOf> balance_of = BalanceOf::kLayer;
  double squares = 0.0;  // ζ

  bool divides() const { return normalize && (top > 1 || normalize_one); }

  bool operator==(const ExpertsConfig&) const = default;
  template <class See>
  void visit(See see) {
    see("experts", experts, "feed-forwards to choose among", from_to(1, kMostExperts));
    see("top", top, "experts that each token goes to", from_to(1, kMostExperts));
    see("capacity", capacity, "places of an expert, in even shares of the tokens; 0: no limit",
        from_to(0, 1e6));
    see("balance", balance, "weight of the loss that keeps loads even", from_to(0, 1000));
    see("normalize", normalize, "of several choices, gates sum to 1");
    see("normalize_one", normalize_one, "that of a single choice is 1 then");
    see("scaling", scaling, "gates are multiplied by it", above_to(0, 1e6));
    see("score", score, "what the router's outputs become");
    see("router_bias", router_bias, "the router has one");
    see("correction", correction, "a constant is added to the scores by which experts are chosen");
    see("groups", groups, "of experts, the best of which are chosen first",
        from_to(1, kMostExperts));
    see("top_groups", top_groups, "groups that a token's experts are of", from_to(1, kMostExperts));
    see("group_score", group_score, "a group's own: its best score, or the sum of two");
    see("width", width, "hidden units of an expert; 0: as other feed-forwards", from_to(0, 1e9));
    see("shared", shared, "hidden units of experts that every token goes to; 0: none",
        from_to(0, 1e9));
    see("shared_gate", shared_gate, "these have a gate");
    see("places", places, "tokens of each sequence that an expert takes; 0: as capacity says",
        from_to(0, 1e12));
    see("overflow", overflow, "of what no expert takes, nothing or its gate times the input");
    see("padding", padding, "padding is routed too");
    see("balance_of", balance_of, "whose loads: a layer's, a stack's or each sequence's");
    see("squares", squares, "weight of the loss that keeps the router's outputs small",
        from_to(0, 1000));
  }
};

class Experts final : public Branch {
 public:
  // Every expert is a feed-forward like `each`, called name.expert.0, name.expert.1, …; the shared
  // ones are one, name.shared.
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
  std::size_t idle_parameters() const override;
  bool packs() const override { return true; }
  bool reads_padding() const override;
  const ExpertsConfig& config() const { return config_; }

 private:
  // Kept from forward, beside the layers inside: z, h, outputs [slots, d], the routes; signals of
  // backward: dz, and at the router's output [rows, experts], at the experts' outputs and, as room
  // for what they received, inputs [slots, d]. Of the shared ones likewise, [rows, …].
  enum Part : std::size_t {
    kZ,
    kH,
    kOutputs,
    kScores,
    kGates,
    kLogSums,
    kInputs,
    kSharedZ,
    kSharedH,
    kSharedOutput,
    kSharedGate
  };
  enum Index : std::size_t { kChosen, kSlots, kSources, kLoads, kTaken };
  struct Expert {
    Linear in;  // gated: rows [gate; up]
    Linear out;
  };
  std::size_t hidden() const { return each_.gated ? 2 * each_.d_ff : each_.d_ff; }
  RouteOptions route_options(const Pass& pass) const;
  TallyOptions tally_options(const Pass& pass) const;
  // What experts keep whether or not there is a backward.
  void take_routes(const Pass& pass, Arena& arena, Kept& kept) const;
  static Routes routes_of(const Kept& kept);
  // Calls body(expert, first slot, rows) for each that has any; returns how many rows there are.
  template <class Body>
  std::size_t for_each_expert(const Pass& pass, const Routes& routes, const Routing* routing,
                              const Body& body) const;
  // How many rows experts compute, and how many slots are taken.
  struct Taken {
    std::size_t rows = 0;
    std::size_t slots = 0;
  };
  Taken taken(const Pass& pass, const Routes& routes, const Routing* routing) const;
  // Where the loss of these experts is kept; null: nobody asks.
  RoutingLoss* loss_of(const Beside& beside) const;
  void add_loss(const BranchForward& call, const Routes& routes) const;
  RouteLoss sent_loss(const Pass& pass, const Beside& beside) const;
  // y = FFN(x) of one expert; y may be x. z may be empty unless gated.
  void run(const Expert& expert, ConstMatrix x, Matrix z, Matrix h, Matrix y) const;
  // Of all that have rows: what they receive is in the slots, where their outputs take its place.
  void run_experts(const BranchForward& call, const Routes& routes, Kept& kept) const;
  // dh, dz and dx of one expert; dh may be dz unless gated.
  void run_backward(const Expert& expert, ConstMatrix z, ConstMatrix dy, Matrix dh, Matrix dz,
                    Matrix dx) const;
  void experts_backward(const BranchBackward& call, const Routes& routes, Kept& signals) const;
  static Kept shared_part(const Kept& kept);
  void run_shared(const BranchForward& call) const;
  void shared_backward(const BranchBackward& call, Kept& signals) const;
  void accumulate_shared(const BranchUpdate& call) const;

  ExpertsConfig config_;
  FeedForwardConfig each_;
  Linear router_;
  const Parameter* correction_ = nullptr;
  std::vector<Expert> experts_;
  std::optional<FeedForward> shared_;
  std::optional<Linear> shared_gate_;
};

}  // namespace longspan
