#include "longspan/models/stack.h"

#include <algorithm>
#include <utility>

#include "longspan/kernels/rows/vector.h"

namespace longspan {

Stack::Stack(Parameters& parameters, const std::string& name, const StackConfig& config)
    : config_(config), stages_(config.stages, config.layers.size()) {
  for (std::size_t layer = 0; layer < layers(); ++layer) {
    first_.push_back(residuals_.size());
    const Parameters::Sharing sharing(parameters, config.shared && layer > 0);
    add_layer(parameters, name, layer);
  }
  first_.push_back(residuals_.size());
  if (config.wiring != Wiring::kPostNorm && config.final_norm) {
    final_norm_ = std::make_unique<Norm>(parameters, name + ".norm", config.norm, output_width(),
                                         config.epsilon, Role::kNorm, config.norm_learns);
  }
}

void Stack::add_layer(Parameters& parameters, const std::string& name, std::size_t layer) {
  const std::string block = name + "." + std::to_string(config_.shared ? 0 : layer);
  const Place::Block here(layer);
  BlockConfig own = config_.block;
  if (!config_.rotary.empty()) {
    own.attention.rotary = config_.rotary[layer % config_.rotary.size()];
  }
  for (const std::string& specification : config_.layers[layer]) {
    const BranchKind* kind = find_branch(specification);
    const std::string_view branch_name = kind == nullptr ? "" : kind->place;
    const Place::Scope of_branch(branch_name, Phase::kForward);
    const std::string place = block + "." + std::string(branch_name);
    auto branch =
        make_branch(specification, {parameters, own, place, name, layer, stages_.step(layer)});
    residuals_.emplace_back(std::move(branch), make_norms(parameters, place), config_.wiring,
                            width(), config_.dropout);
    layer_.push_back(layer);
  }
}

ResidualNorms Stack::make_norms(Parameters& parameters, const std::string& place) const {
  const auto norm = [&](const char* own) {
    return std::make_unique<Norm>(parameters, place + own, config_.norm, width(), config_.epsilon,
                                  Role::kNorm, config_.norm_learns);
  };
  const bool first = residuals_.size() == first_.back();  // of its layer
  ResidualNorms norms;
  const bool none = !config_.first_norm && residuals_.empty();
  if (!none && (first || config_.wiring != Wiring::kParallelShared)) norms.in = norm("_norm");
  if (config_.wiring == Wiring::kSandwich) norms.out = norm("_out_norm");
  return norms;
}

Pass Stack::pass_of(const Pass& pass, std::size_t i) const {
  Pass own = pass;
  own.key = derive(pass.key, i);
  return own;
}

Beside Stack::beside_of(const StackBeside& beside, std::size_t i) const {
  Beside own;
  if (!beside.histories.empty()) own.history = &beside.histories[layer_[i]];
  own.records = beside.records;
  if (!beside.caches.empty()) own.cache = &beside.caches[i];
  own.context_gradient = beside.context_gradient;
  if (!beside.routings.empty()) own.routing = &beside.routings[i];
  own.joint = beside.joint;
  return own;
}

bool Stack::decodes() const {
  return std::ranges::all_of(residuals_, [](const Residual& r) { return r.branch().decodes(); });
}

const Branch* Stack::needs_padding() const {
  for (const Residual& r : residuals_) {
    if (!r.branch().packs()) return &r.branch();
  }
  return nullptr;
}

bool Stack::reads_padding() const {
  return stages_.active() || std::ranges::any_of(residuals_, [](const Residual& r) {
           return r.branch().reads_padding();
         });
}

bool Stack::chooses() const {
  return std::ranges::any_of(residuals_,
                             [](const Residual& r) { return r.branch().experts() > 0; });
}

std::size_t Stack::idle_parameters() const {
  std::size_t sum = 0;
  const std::size_t own = first_[config_.shared ? std::min<std::size_t>(1, layers()) : layers()];
  for (std::size_t i = 0; i < own; ++i) sum += residuals_[i].branch().idle_parameters();
  return sum;
}

void Stack::lay_out_caches(std::size_t batch, std::size_t capacity, std::size_t context,
                           Arena& arena, std::vector<DecodeCache>& caches) const {
  caches.assign(residuals_.size(), {});
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    DecodeCache& cache = caches[i];
    cache.batch = batch;
    cache.capacity = capacity;
    residuals_[i].branch().size_cache(context, cache);
    cache.data = arena.take(cache.floats).data();
    cache.clear();
  }
}

void Stack::join_streams(ConstMatrix a, ConstMatrix b, Matrix y) const {
  const Place::Scope scope(kStreamsMeter, Phase::kForward);
  if (config_.concatenates) {
    copy(a, y.slice_cols(0, width()));
    copy(b, y.slice_cols(width(), width()));
    return;
  }
  add(a, b, y);
  scale(0.5F, y);
}

Matrix Stack::finish(const Pass& pass, Matrix x, Norm::Saved* saved, Arena& arena) const {
  if (final_norm_ == nullptr) return x;
  const Place::Scope scope(kFinalMeter, Phase::kForward);
  if (saved == nullptr) {
    final_norm_->forward(x, x, {});
    return x;
  }
  *saved = final_norm_->save(pass.rows(), arena);
  // In place: backward reads normalised values only.
  final_norm_->forward(x, x, *saved);
  return x;
}

void Stack::run_layer(const Pass& pass, std::size_t layer, Matrix x, Matrix y, ResidualSaved* saved,
                      const StackBeside& beside, Arena& arena) const {
  if (parallel()) return run_parallel(pass, layer, x, y, saved, beside, arena);
  for (std::size_t i = first_[layer]; i < first_[layer + 1]; ++i) {
    const Place::Scope place(residuals_[i].branch().meter_name(), Phase::kForward);
    const Matrix to = i + 1 == first_[layer + 1] ? y : arena.matrix(pass.rows(), width());
    residuals_[i].forward(pass_of(pass, i), x, to,
                          saved == nullptr ? nullptr : saved + (i - first_[layer]),
                          beside_of(beside, i), arena);
    x = to;
  }
}

Matrix Stack::forward_frozen(const Pass& pass, Matrix x, const StackBeside& beside,
                             Arena& arena) const {
  if (config_.frozen == 0) return x;
  Matrix other = arena.matrix(pass.rows(), width());
  for (std::size_t layer = 0; layer < config_.frozen; ++layer) {
    const Place::Block block(layer);
    const Arena::Frame frame(arena);
    run_layer(pass, layer, x, other, nullptr, beside, arena);
    std::swap(x, other);
  }
  return x;
}

void Stack::forward_streams(const Pass& pass, Matrix x, Tape& tape, const StackBeside& beside,
                            Arena& arena) const {
  tape.a = x;
  tape.b = arena.matrix(pass.rows(), width());
  copy(tape.a, tape.b);
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    const Place::Block block(layer_[i]);
    residuals_[i].add_to(pass_of(pass, i), i % 2 == 0 ? tape.b : tape.a,
                         i % 2 == 0 ? tape.a : tape.b, beside_of(beside, i), arena);
  }
  const Place::Scope place(kStreamsMeter, Phase::kForward);
  tape.output = take_output(pass, arena);
  join_streams(tape.a, tape.b, tape.output);
}

Matrix Stack::forward(const Pass& pass, Matrix x, Tape& tape, const StackBeside& beside,
                      Arena& arena) const {
  if (stages_.active()) return run_stages(pass, x, &tape, beside, arena);
  if (reversible()) {
    forward_streams(pass, x, tape, beside, arena);
    return finish(pass, tape.output, &tape.final_norm, arena);
  }
  tape.output = forward_frozen(pass, x, beside, arena);
  if (config_.checkpointing) {
    tape.inputs.resize(layers());
    for (std::size_t layer = config_.frozen; layer < layers(); ++layer) {
      const Place::Block block(layer);
      tape.inputs[layer] = std::exchange(tape.output, arena.matrix(pass.rows(), width()));
      const Arena::Frame frame(arena);
      run_layer(pass, layer, tape.inputs[layer], tape.output, nullptr, beside, arena);
    }
  } else if (parallel()) {
    tape.residuals.resize(residuals_.size());
    Matrix y = arena.matrix(pass.rows(), width());
    for (std::size_t layer = config_.frozen; layer < layers(); ++layer) {
      const Place::Block block(layer);
      run_parallel(pass, layer, tape.output, y, &tape.residuals[first_[layer]], beside, arena);
      std::swap(tape.output, y);
    }
  } else {
    // Where backward reads only what the sublayers themselves keep, two buffers take turns.
    tape.residuals.resize(residuals_.size());
    Matrix y;
    for (std::size_t i = frozen_sublayers(); i < residuals_.size(); ++i) {
      const Place::Block block(layer_[i]);
      const Place::Scope place(residuals_[i].branch().meter_name(), Phase::kForward);
      if (i == frozen_sublayers() || keeps_inputs()) y = arena.matrix(pass.rows(), width());
      residuals_[i].forward(pass_of(pass, i), tape.output, y, &tape.residuals[i],
                            beside_of(beside, i), arena);
      std::swap(tape.output, y);
    }
  }
  return finish(pass, tape.output, &tape.final_norm, arena);
}

Matrix Stack::backward(const Pass& pass, Tape& tape, Matrix g, const StackBeside& beside,
                       Arena& arena) const {
  if (stages_.active()) return backward_stages(tape, g, beside, arena);
  if (final_norm_ != nullptr) {
    {
      const Place::Scope scope(kFinalMeter, Phase::kUpdate);
      final_norm_->accumulate(tape.final_norm, g);
    }
    if (beside.signals == nullptr) backward_final_norm(tape, g);
  }
  if (reversible()) return backward_streams(pass, tape, g, beside, arena);
  if (config_.checkpointing) {
    backward_layers(pass, tape, g, beside, arena);
    return g;
  }
  for (std::size_t layer = layers(); layer-- > config_.frozen;) {
    const Place::Block block(layer);
    receive(tape, layer, g, beside);
    backward_layer(pass, layer, &tape.residuals[first_[layer]], g, beside, arena);
  }
  return g;
}

void Stack::backward_layer(const Pass& pass, std::size_t layer, const ResidualSaved* saved,
                           Matrix g, const StackBeside& beside, Arena& arena) const {
  if (parallel()) return backward_parallel(pass, layer, saved, g, beside, arena);
  for (std::size_t i = first_[layer + 1]; i-- > first_[layer];) {
    residuals_[i].backward(pass_of(pass, i), saved[i - first_[layer]], g, beside_of(beside, i),
                           arena);
  }
}

void Stack::backward_final_norm(const Tape& tape, Matrix g) const {
  const Place::Scope scope(kFinalMeter, Phase::kBackward);
  final_norm_->backward(tape.final_norm, g, g, /*add=*/false);
}

void Stack::receive(const Tape& tape, std::size_t block, Matrix g,
                    const StackBeside& beside) const {
  if (beside.signals == nullptr) return;
  beside.signals->send(block, g);
  if (final_norm_ != nullptr) backward_final_norm(tape, g);
}

void Stack::backward_layers(const Pass& pass, Tape& tape, Matrix g, const StackBeside& beside,
                            Arena& arena) const {
  for (std::size_t layer = layers(); layer-- > config_.frozen;) {
    const std::size_t first = first_[layer];
    tape.residuals.resize(std::max(tape.residuals.size(), first_[layer + 1] - first));
    const Place::Block block(layer);
    const Place::Scope place(residuals_[first].branch().meter_name(), Phase::kBackward);
    const Arena::Frame frame(arena);
    const Matrix y = arena.matrix(pass.rows(), width());
    {
      const Place::Again again;
      run_layer(pass, layer, tape.inputs[layer], y, tape.residuals.data(), beside, arena);
    }
    receive(tape, layer, g, beside);
    backward_layer(pass, layer, tape.residuals.data(), g, beside, arena);
  }
}

Matrix Stack::backward_streams(const Pass& pass, Tape& tape, Matrix g, const StackBeside& beside,
                               Arena& arena) const {
  const Arena::Frame frame(arena);
  Matrix other;
  if (config_.concatenates) {
    other = g.slice_cols(width(), width());
    g = g.slice_cols(0, width());
  } else {
    const Place::Scope scope(kStreamsMeter, Phase::kBackward);
    other = arena.matrix(pass.rows(), width());
    scale(0.5F, g);
    copy(g, other);
  }
  for (std::size_t i = residuals_.size(); i-- > 0;) {
    const Place::Block block(layer_[i]);
    const bool even = i % 2 == 0;
    residuals_[i].undo(
        pass_of(pass, i),
        {even ? tape.b : tape.a, even ? tape.a : tape.b, even ? g : other, even ? other : g},
        beside_of(beside, i), arena);
  }
  const Place::Scope scope(kStreamsMeter, Phase::kBackward);
  add(g, other, g);
  return g;
}

Matrix Stack::infer(const Pass& pass, Matrix x, const StackBeside& beside, Arena& arena) const {
  if (stages_.active()) return run_stages(pass, x, nullptr, beside, arena);
  Matrix other = arena.matrix(pass.rows(), width());
  if (reversible()) copy(x, other);
  for (std::size_t layer = 0; parallel() && layer < layers(); ++layer) {
    const Place::Block block(layer);
    run_parallel(pass, layer, x, other, nullptr, beside, arena);
    std::swap(x, other);
    show(first_[layer + 1] - 1, x, beside);
    for (std::size_t i = first_[layer]; !beside.caches.empty() && i < first_[layer + 1]; ++i) {
      beside.caches[i].used += pass.length;
    }
  }
  for (std::size_t i = 0; !parallel() && i < residuals_.size(); ++i) {
    const Place::Block block(layer_[i]);
    const Pass own = pass_of(pass, i);
    const Beside by = beside_of(beside, i);
    if (reversible()) {
      residuals_[i].add_to(own, i % 2 == 0 ? other : x, i % 2 == 0 ? x : other, by, arena);
      show(i, i % 2 == 0 ? x : other, beside);
    } else {
      residuals_[i].forward(own, x, other, nullptr, by, arena);
      std::swap(x, other);
      show(i, x, beside);
    }
    if (by.cache != nullptr) by.cache->used += pass.length;
  }
  if (reversible()) {
    const Matrix joined = config_.concatenates ? take_output(pass, arena) : x;
    join_streams(x, other, joined);
    x = joined;
  }
  x = finish(pass, x, nullptr, arena);
  if (beside.watch != nullptr && final_norm_ != nullptr) beside.watch->see(kFinalMeter, x);
  return x;
}

}  // namespace longspan
