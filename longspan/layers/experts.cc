#include "longspan/layers/experts.h"

#include <algorithm>

#include "longspan/base/error.h"
#include "longspan/base/number.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

namespace {

const ExpertsConfig& checked(const ExpertsConfig& c) {
  check_numbers("experts", c);
  require(c.top <= c.experts, "[experts] top is {}; need 1 to {}, the experts", c.top, c.experts);
  require(c.experts % c.groups == 0, "[experts] {} groups of {} experts; need equal ones", c.groups,
          c.experts);
  const std::size_t each = c.experts / c.groups;
  require(c.top_groups <= c.groups, "[experts] top_groups is {}; need 1 to {}, the groups",
          c.top_groups, c.groups);
  require(c.groups == 1 || c.top <= c.top_groups * each,
          "[experts] {} experts of a token in {} groups of {}; need at least as many in them",
          c.top, c.top_groups, each);
  require(c.groups == 1 || c.group_score == GroupScore::kBest || each > 1,
          "[experts] the two best scores of groups of 1; need 2 experts in each");
  require(!c.normalize_one || c.normalize, "[experts] normalize_one without normalize; need both");
  require(!c.shared_gate || c.shared > 0,
          "[experts] a gate of no shared experts; need their width, shared");
  require(c.squares == 0.0 || c.score == RouteScore::kSoftmax,
          "[experts] squares of the logarithms of sums of sigmoids; need score=softmax");
  return c;
}

FeedForwardConfig sized(FeedForwardConfig each, std::size_t width) {
  if (width > 0) each.d_ff = width;
  return each;
}

}  // namespace

Experts::Experts(Parameters& parameters, const std::string& name, const ExpertsConfig& config,
                 const FeedForwardConfig& each)
    : config_(checked(config)),
      each_(sized(each, config.width)),
      router_(parameters, name + ".router", each.d_model, config.experts, config.router_bias,
              each.deviation) {
  if (config.correction) {
    correction_ = &parameters.declare_constant(name + ".router.correction", 1, config.experts,
                                               [](Matrix b) { fill(b, 0.0F); });
  }
  for (std::size_t e = 0; e < config.experts; ++e) {
    const std::string own = name + ".expert." + std::to_string(e);
    experts_.push_back(
        {Linear(parameters, own + ".in", each.d_model, hidden(), each.bias, each.deviation),
         Linear(parameters, own + ".out", each_.d_ff, each.d_model, each.bias,
                each.output_deviation, Role::kBranchOutput)});
  }
  if (config.shared == 0) return;
  shared_.emplace(parameters, name + ".shared", sized(each, config.shared));
  if (config.shared_gate) {
    shared_gate_.emplace(parameters, name + ".shared_gate", each.d_model, 1, /*bias=*/false,
                         each.deviation);
  }
}

bool Experts::trained() const {
  return !router_.weight().constant || (shared_ && shared_->trained()) ||
         std::ranges::any_of(experts_, [](const Expert& e) { return !e.in.weight().constant; });
}

std::size_t Experts::idle_parameters() const {
  const auto size_of = [](const Linear& linear) {
    return linear.weight().size() + (linear.bias() == nullptr ? 0 : linear.bias()->size());
  };
  const Expert& one = experts_.front();
  return (config_.experts - config_.top) * (size_of(one.in) + size_of(one.out));
}

bool Experts::reads_padding() const {
  const bool limited = config_.places == 0 && config_.capacity > 0.0;
  const bool loses = config_.squares > 0.0 || config_.balance > 0.0;
  return config_.padding && (limited || (loses && config_.balance_of == BalanceOf::kSequences));
}

RouteOptions Experts::route_options(const Pass& pass) const {
  RouteOptions options;
  // No row of packed sequences is padding.
  const bool all = pass.packed || config_.padding;
  const std::span<const std::int32_t> lengths =
      all ? std::span<const std::int32_t>{} : pass.lengths;
  options.sequences = {pass.packed ? pass.rows() : pass.length, lengths};
  if (pass.packed) options.runs = pass.lengths;
  options.tokens = lengths.empty() ? pass.rows() : packed_rows(lengths);
  options.experts = config_.experts;
  options.top = config_.top;
  options.score = config_.score;
  if (correction_ != nullptr) options.correction = correction_->value;
  options.groups = config_.groups;
  options.top_groups = config_.top_groups;
  options.group_score = config_.group_score;
  options.divided = config_.divides();
  options.scaling = static_cast<float>(config_.scaling);
  options.places = config_.places;
  options.capacity =
      config_.places > 0
          ? std::min(options.tokens, pass.batch * std::min(config_.places, pass.length))
      : config_.capacity == 0.0
          ? options.tokens
          : expert_capacity(config_.capacity, config_.top, options.tokens, config_.experts);
  options.passes = config_.overflow == Overflow::kPass;
  options.squares = config_.squares > 0.0;
  options.decided = Place::now().again;
  return options;
}

TallyOptions Experts::tally_options(const Pass& pass) const {
  TallyOptions how;
  switch (config_.balance_of) {
    case BalanceOf::kLayer:
      how.choices = Tallied::kFirst;
      break;
    case BalanceOf::kStack:
      how.choices = Tallied::kAll;
      break;
    case BalanceOf::kSequences:
      how.choices = Tallied::kTaken;
      how.sequences = true;
      break;
  }
  const bool padding = how.sequences && config_.padding;
  if (!pass.packed && !padding) how.real = pass.lengths;
  return how;
}

template <class Body>
std::size_t Experts::for_each_expert(const Pass& pass, const Routes& routes, const Routing* routing,
                                     const Body& body) const {
  const RouteOptions options = route_options(pass);
  std::size_t first = 0;
  for (std::size_t e = 0; e < experts_.size(); ++e) {
    const std::size_t rows = rows_of_expert(options, routes, routing, e);
    if (rows > 0) body(experts_[e], first, rows);
    first += rows;
  }
  return first;
}

Experts::Taken Experts::taken(const Pass& pass, const Routes& routes,
                              const Routing* routing) const {
  const RouteOptions options = route_options(pass);
  const std::size_t rows =
      for_each_expert(pass, routes, routing, [](const Expert&, std::size_t, std::size_t) {});
  return {rows, options.passes ? options.slots() : rows};
}

void Experts::take_routes(const Pass& pass, Arena& arena, Kept& kept) const {
  const RouteOptions options = route_options(pass);
  const std::size_t choices = pass.rows() * options.top;
  kept[kScores] = arena.matrix(pass.rows(), options.experts);
  kept[kGates] = arena.matrix(pass.rows(), options.top);
  if (options.squares) kept[kLogSums] = arena.matrix(pass.rows(), 1);
  kept.indices[kChosen] = arena.take<std::int32_t>(choices);
  kept.indices[kSlots] = arena.take<std::int32_t>(choices);
  kept.indices[kSources] = arena.take<std::int32_t>(options.slots());
  kept.indices[kLoads] = arena.take<std::int32_t>(options.experts);
  kept.indices[kTaken] = arena.take<std::int32_t>(options.experts);
  kept[kOutputs] = arena.matrix(options.slots(), each_.d_model);
}

Routes Experts::routes_of(const Kept& kept) {
  Routes routes;
  routes.scores = kept[kScores];
  routes.gates = kept[kGates];
  routes.log_sums = kept[kLogSums];
  routes.chosen = kept.indices[kChosen];
  routes.slots = kept.indices[kSlots];
  routes.sources = kept.indices[kSources];
  routes.loads = kept.indices[kLoads];
  routes.taken = kept.indices[kTaken];
  return routes;
}

Kept Experts::save(const Pass& pass, Arena& arena) const {
  Kept saved;
  const std::size_t rows = route_options(pass).rows();
  take_routes(pass, arena, saved);
  saved[kZ] = arena.matrix(rows, hidden());
  saved[kH] = arena.matrix(rows, each_.d_ff);
  if (shared_) {
    const Kept own = shared_->save(pass, arena);
    saved[kSharedZ] = own[0];
    saved[kSharedH] = own[1];
  }
  if (shared_gate_) {
    saved[kSharedOutput] = arena.matrix(pass.rows(), each_.d_model);
    saved[kSharedGate] = arena.matrix(pass.rows(), 1);
  }
  return saved;
}

void Experts::run(const Expert& expert, ConstMatrix x, Matrix z, Matrix h, Matrix y) const {
  const std::size_t f = each_.d_ff;
  if (each_.gated) {
    expert.in.forward(x, z);
    gated_forward(each_.activation, z.slice_cols(0, f), z.slice_cols(f, f), h);
  } else {
    expert.in.forward(x, each_.activation, z, h);
  }
  expert.out.forward(h, y);
}

void Experts::run_backward(const Expert& expert, ConstMatrix z, ConstMatrix dy, Matrix dh,
                           Matrix dz, Matrix dx) const {
  const std::size_t f = each_.d_ff;
  expert.out.backward(dy, dh);
  if (each_.gated) {
    gated_backward(each_.activation, z.slice_cols(0, f), z.slice_cols(f, f), dh,
                   dz.slice_cols(0, f), dz.slice_cols(f, f));
  } else {
    activation_backward(each_.activation, z, dh, dz);
  }
  expert.in.backward(dz, dx);
}

RoutingLoss* Experts::loss_of(const Beside& beside) const {
  if (beside.routing == nullptr || (config_.balance == 0.0 && config_.squares == 0.0)) {
    return nullptr;
  }
  return config_.balance_of == BalanceOf::kLayer ? &beside.routing->loss : beside.joint;
}

void Experts::add_loss(const BranchForward& call, const Routes& routes) const {
  RoutingLoss* const loss = loss_of(call.beside);
  if (loss == nullptr || !call.pass.training || Place::now().again) return;
  if (!Dry::on()) {
    require(loss->tally.experts == 0 ||
                (loss->balance == config_.balance && loss->squares == config_.squares),
            "[experts] balance {} and squares {} beside {} and {} of another layer; need the same",
            config_.balance, config_.squares, loss->balance, loss->squares);
    loss->balance = config_.balance;
    loss->squares = config_.squares;
  }
  tally_routes(route_options(call.pass), routes, tally_options(call.pass), loss->tally);
}

RouteLoss Experts::sent_loss(const Pass& pass, const Beside& beside) const {
  const RoutingLoss* const loss = loss_of(beside);
  if (loss == nullptr || loss->tally.experts == 0) return {};
  const auto weight = static_cast<double>(beside.routing->weight);
  return {&loss->tally, tally_options(pass), weight * config_.balance, weight * config_.squares};
}

Kept Experts::shared_part(const Kept& kept) {
  Kept own;
  own[0] = kept[kSharedZ];
  own[1] = kept[kSharedH];
  return own;
}

void Experts::run_shared(const BranchForward& call) const {
  const Arena::Frame frame(call.arena);
  const bool saves = call.saved != nullptr;
  const Kept own = saves ? shared_part(*call.saved) : Kept{};
  const Matrix y = saves && shared_gate_ ? (*call.saved)[kSharedOutput] : call.y;
  shared_->forward({call.pass, call.x, y, saves ? &own : nullptr, call.beside, call.arena});
  if (!shared_gate_) return;
  const Matrix gate = saves ? (*call.saved)[kSharedGate] : call.arena.matrix(call.pass.rows(), 1);
  shared_gate_->forward(call.x, gate);
  gate_rows(gate, y, call.y);
}

void Experts::shared_backward(const BranchBackward& call, Kept& signals) const {
  ConstMatrix dy = call.dy;
  if (shared_gate_) {
    dy = signals[kSharedOutput] = call.arena.matrix(call.pass.rows(), each_.d_model);
    signals[kSharedGate] = call.arena.matrix(call.pass.rows(), 1);
    gate_rows_backward(call.saved[kSharedGate], call.saved[kSharedOutput], call.dy,
                       signals[kSharedGate], signals[kSharedOutput]);
  }
  const Kept own = shared_part(call.saved);
  signals[kSharedZ] = shared_->backward({call.pass, own, dy, call.dx, call.beside, call.arena})[0];
  if (shared_gate_) shared_gate_->backward(signals[kSharedGate], call.dx, /*add=*/true);
}

void Experts::accumulate_shared(const BranchUpdate& call) const {
  const Kept saved = shared_part(call.saved);
  const Kept signals = shared_part(call.signals);
  const ConstMatrix dy = shared_gate_ ? ConstMatrix(call.signals[kSharedOutput]) : call.dy;
  shared_->accumulate({call.pass, call.x, saved, dy, signals, call.beside});
  if (shared_gate_) shared_gate_->accumulate(call.x, call.signals[kSharedGate]);
}

void Experts::run_experts(const BranchForward& call, const Routes& routes, Kept& kept) const {
  const RouteOptions options = route_options(call.pass);
  // Without a backward one expert's memory serves them all.
  const bool alone = call.saved == nullptr;
  if (alone && each_.gated) kept[kZ] = call.arena.matrix(options.capacity, hidden());
  if (alone) kept[kH] = call.arena.matrix(options.capacity, each_.d_ff);
  const bool has_z = kept[kZ].data != nullptr;
  for_each_expert(call.pass, routes, call.beside.routing,
                  [&](const Expert& expert, std::size_t first, std::size_t rows) {
                    const Matrix io = kept[kOutputs].slice_rows(first, rows);
                    const std::size_t at = alone ? 0 : first;
                    run(expert, io, has_z ? kept[kZ].slice_rows(at, rows) : Matrix{},
                        kept[kH].slice_rows(at, rows), io);
                  });
}

void Experts::forward(const BranchForward& call) const {
  const Pass& pass = call.pass;
  Arena& arena = call.arena;
  Routing* const routing = call.beside.routing;
  if (shared_) run_shared(call);
  const Arena::Frame frame(arena);
  const RouteOptions options = route_options(pass);
  Kept kept;
  if (call.saved != nullptr) {
    kept = *call.saved;
  } else {
    take_routes(pass, arena, kept);
  }
  const Routes routes = routes_of(kept);
  router_.forward(call.x, routes.scores);
  if (options.decided) recall_choices(routes, routing);
  route_rows(options, routes);
  note_routes(options, routes, routing);
  add_loss(call, routes);

  const std::size_t slots = taken(pass, routes, routing).slots;
  const Matrix outputs = kept[kOutputs].slice_rows(0, slots);
  gather_rows(call.x, routes.sources.first(slots), outputs);
  run_experts(call, routes, kept);
  combine_slots(routes, outputs, /*add=*/shared_.has_value(), call.y);
}

void Experts::experts_backward(const BranchBackward& call, const Routes& routes,
                               Kept& signals) const {
  const Arena::Frame frame(call.arena);
  const RouteOptions options = route_options(call.pass);
  const Matrix scratch = each_.gated ? call.arena.matrix(options.capacity, each_.d_ff) : Matrix{};
  const std::size_t computed =
      for_each_expert(call.pass, routes, call.beside.routing,
                      [&](const Expert& expert, std::size_t first, std::size_t rows) {
                        const Matrix dz = signals[kZ].slice_rows(first, rows);
                        run_backward(expert, call.saved[kZ].slice_rows(first, rows),
                                     signals[kOutputs].slice_rows(first, rows),
                                     each_.gated ? scratch.slice_rows(0, rows) : dz, dz,
                                     signals[kInputs].slice_rows(first, rows));
                      });
  if (!options.passes) return;
  const std::size_t passed = options.slots() - computed;
  copy(signals[kOutputs].slice_rows(computed, passed),
       signals[kInputs].slice_rows(computed, passed));
}

Kept Experts::backward(const BranchBackward& call) const {
  const Pass& pass = call.pass;
  Arena& arena = call.arena;
  const RouteOptions options = route_options(pass);
  const Routes routes = routes_of(call.saved);
  Kept signals;
  if (shared_) shared_backward(call, signals);
  signals[kZ] = arena.matrix(options.rows(), hidden());
  signals[kScores] = arena.matrix(pass.rows(), options.experts);
  signals[kOutputs] = arena.matrix(options.slots(), each_.d_model);
  signals[kInputs] = arena.matrix(options.slots(), each_.d_model);

  const Arena::Frame frame(arena);
  const Matrix dgates = arena.matrix(pass.rows(), options.top);
  const std::size_t slots = taken(pass, routes, call.beside.routing).slots;
  combine_slots_backward(routes, call.saved[kOutputs].slice_rows(0, slots), call.dy, dgates,
                         signals[kOutputs].slice_rows(0, slots));
  experts_backward(call, routes, signals);
  route_backward(options, routes, dgates, sent_loss(pass, call.beside), signals[kScores]);
  router_.backward(signals[kScores], call.dx, /*add=*/shared_.has_value());
  scatter_add_rows(signals[kInputs].slice_rows(0, slots), routes.sources.first(slots), call.dx);
  return signals;
}

void Experts::accumulate(const BranchUpdate& call) const {
  const Kept& signals = call.signals;
  const Routing* const routing = call.beside.routing;
  const Routes routes = routes_of(call.saved);
  if (shared_) accumulate_shared(call);
  const std::size_t rows = taken(call.pass, routes, routing).rows;
  // What the experts received was not kept: their outputs took its place.
  const Matrix inputs = signals[kInputs].slice_rows(0, rows);
  gather_rows(call.x, routes.sources.first(rows), inputs);
  for_each_expert(
      call.pass, routes, routing, [&](const Expert& expert, std::size_t first, std::size_t n) {
        expert.out.accumulate(call.saved[kH].slice_rows(first, n),
                              signals[kOutputs].slice_rows(first, n));
        expert.in.accumulate(inputs.slice_rows(first, n), signals[kZ].slice_rows(first, n));
      });
  router_.accumulate(call.x, signals[kScores]);
}

}  // namespace longspan
