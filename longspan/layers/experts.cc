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
  return c;
}

}  // namespace

Experts::Experts(Parameters& parameters, const std::string& name, const ExpertsConfig& config,
                 const FeedForwardConfig& each)
    : config_(checked(config)),
      each_(each),
      router_(parameters, name + ".router", each.d_model, config.experts, /*bias=*/false,
              each.deviation) {
  for (std::size_t e = 0; e < config.experts; ++e) {
    const std::string own = name + ".expert." + std::to_string(e);
    experts_.push_back(
        {Linear(parameters, own + ".in", each.d_model, hidden(), each.bias, each.deviation),
         Linear(parameters, own + ".out", each.d_ff, each.d_model, each.bias, each.output_deviation,
                Role::kBranchOutput)});
  }
}

bool Experts::trained() const {
  return !router_.weight().constant ||
         std::ranges::any_of(experts_, [](const Expert& e) { return !e.in.weight().constant; });
}

RouteOptions Experts::route_options(const Pass& pass) const {
  RouteOptions options;
  // No row of packed sequences is padding, and nobody asks whose it is.
  const std::span<const std::int32_t> lengths =
      pass.packed ? std::span<const std::int32_t>{} : pass.lengths;
  options.sequences = {pass.packed ? pass.rows() : pass.length, lengths};
  options.tokens = lengths.empty() ? pass.rows() : packed_rows(lengths);
  options.experts = config_.experts;
  options.top = config_.top;
  options.capacity =
      expert_capacity(config_.capacity, config_.top, options.tokens, config_.experts);
  options.normalize = config_.normalize;
  options.decided = Place::now().again;
  return options;
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

std::size_t Experts::slots_taken(const Pass& pass, const Routes& routes,
                                 const Routing* routing) const {
  return for_each_expert(pass, routes, routing, [](const Expert&, std::size_t, std::size_t) {});
}

void Experts::take_routes(const Pass& pass, Arena& arena, Kept& kept) const {
  const RouteOptions options = route_options(pass);
  const std::size_t choices = pass.rows() * options.top;
  kept[kProbabilities] = arena.matrix(pass.rows(), options.experts);
  kept[kGates] = arena.matrix(pass.rows(), options.top);
  kept.indices[kChosen] = arena.take<std::int32_t>(choices);
  kept.indices[kSlots] = arena.take<std::int32_t>(choices);
  kept.indices[kSources] = arena.take<std::int32_t>(options.slots());
  kept.indices[kLoads] = arena.take<std::int32_t>(options.experts);
  kept.indices[kFirsts] = arena.take<std::int32_t>(options.experts);
  kept[kOutputs] = arena.matrix(options.slots(), each_.d_model);
}

Routes Experts::routes_of(const Kept& kept) {
  Routes routes;
  routes.probabilities = kept[kProbabilities];
  routes.gates = kept[kGates];
  routes.chosen = kept.indices[kChosen];
  routes.slots = kept.indices[kSlots];
  routes.sources = kept.indices[kSources];
  routes.loads = kept.indices[kLoads];
  routes.firsts = kept.indices[kFirsts];
  return routes;
}

Kept Experts::save(const Pass& pass, Arena& arena) const {
  Kept saved;
  const std::size_t slots = route_options(pass).slots();
  take_routes(pass, arena, saved);
  saved[kZ] = arena.matrix(slots, hidden());
  saved[kH] = arena.matrix(slots, each_.d_ff);
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

void Experts::add_loss(const BranchForward& call, const Routes& routes) const {
  const Arena::Frame frame(call.arena);
  // Always: what is booked serves any pass.
  const Matrix sums = call.arena.matrix(1, experts_.size());
  Routing* const routing = call.beside.routing;
  const bool asked = routing != nullptr && call.pass.training && !Place::now().again;
  if (!asked || config_.balance == 0.0) return;
  routing->loss += balance_factor(call.pass) * balance_sum(routes, sums);
}

double Experts::balance_factor(const Pass& pass) const {
  const auto tokens = static_cast<double>(std::max<std::size_t>(1, route_options(pass).tokens));
  return config_.balance * static_cast<double>(config_.experts) / (tokens * tokens);
}

void Experts::forward(const BranchForward& call) const {
  const Pass& pass = call.pass;
  Arena& arena = call.arena;
  Routing* const routing = call.beside.routing;
  const Arena::Frame frame(arena);
  const RouteOptions options = route_options(pass);
  Kept kept;
  if (call.saved != nullptr) {
    kept = *call.saved;
  } else {
    take_routes(pass, arena, kept);
  }
  const Routes routes = routes_of(kept);
  router_.forward(call.x, routes.probabilities);
  if (options.decided) recall_choices(routes, routing);
  route_rows(options, routes);
  note_routes(options, routes, routing);
  add_loss(call, routes);

  const std::size_t taken = slots_taken(pass, routes, routing);
  const Matrix outputs = kept[kOutputs].slice_rows(0, taken);
  gather_rows(call.x, routes.sources.first(taken), outputs);
  // Without a backward one expert's memory serves them all.
  const bool shared = call.saved == nullptr;
  if (shared && each_.gated) kept[kZ] = arena.matrix(options.capacity, hidden());
  if (shared) kept[kH] = arena.matrix(options.capacity, each_.d_ff);
  for_each_expert(
      pass, routes, routing, [&](const Expert& expert, std::size_t first, std::size_t rows) {
        const Matrix io = outputs.slice_rows(first, rows);  // received, then given
        const std::size_t at = shared ? 0 : first;
        run(expert, io, kept[kZ].data == nullptr ? Matrix{} : kept[kZ].slice_rows(at, rows),
            kept[kH].slice_rows(at, rows), io);
      });
  combine_slots(routes, outputs, call.y);
}

Kept Experts::backward(const BranchBackward& call) const {
  const Pass& pass = call.pass;
  Arena& arena = call.arena;
  const Routing* const routing = call.beside.routing;
  const RouteOptions options = route_options(pass);
  const Routes routes = routes_of(call.saved);
  Kept signals;
  signals[kZ] = arena.matrix(options.slots(), hidden());
  signals[kScores] = arena.matrix(pass.rows(), options.experts);
  signals[kOutputs] = arena.matrix(options.slots(), each_.d_model);
  signals[kInputs] = arena.matrix(options.slots(), each_.d_model);

  const Arena::Frame frame(arena);
  const Matrix dgates = arena.matrix(pass.rows(), options.top);
  const Matrix scratch = each_.gated ? arena.matrix(options.capacity, each_.d_ff) : Matrix{};
  const std::size_t taken = slots_taken(pass, routes, routing);
  const Matrix doutputs = signals[kOutputs].slice_rows(0, taken);
  const Matrix dinputs = signals[kInputs].slice_rows(0, taken);
  combine_slots_backward(routes, call.saved[kOutputs].slice_rows(0, taken), call.dy, dgates,
                         doutputs);
  for_each_expert(
      pass, routes, routing, [&](const Expert& expert, std::size_t first, std::size_t rows) {
        const Matrix dz = signals[kZ].slice_rows(first, rows);
        run_backward(
            expert, call.saved[kZ].slice_rows(first, rows), doutputs.slice_rows(first, rows),
            each_.gated ? scratch.slice_rows(0, rows) : dz, dz, dinputs.slice_rows(first, rows));
      });
  const double weight = routing == nullptr ? 0.0 : static_cast<double>(routing->weight);
  route_backward(options, routes, dgates, static_cast<float>(weight * balance_factor(pass)),
                 signals[kScores]);
  router_.backward(signals[kScores], call.dx);
  scatter_add_rows(dinputs, routes.sources.first(taken), call.dx);
  return signals;
}

void Experts::accumulate(const BranchUpdate& call) const {
  const Kept& signals = call.signals;
  const Routing* const routing = call.beside.routing;
  const Routes routes = routes_of(call.saved);
  const std::size_t taken = slots_taken(call.pass, routes, routing);
  // What the experts received was not kept: their outputs took its place.
  const Matrix inputs = signals[kInputs].slice_rows(0, taken);
  gather_rows(call.x, routes.sources.first(taken), inputs);
  for_each_expert(
      call.pass, routes, routing, [&](const Expert& expert, std::size_t first, std::size_t rows) {
        expert.out.accumulate(call.saved[kH].slice_rows(first, rows),
                              signals[kOutputs].slice_rows(first, rows));
        expert.in.accumulate(inputs.slice_rows(first, rows), signals[kZ].slice_rows(first, rows));
      });
  router_.accumulate(call.x, signals[kScores]);
}

}  // namespace longspan
