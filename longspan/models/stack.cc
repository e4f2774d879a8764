#include "longspan/models/stack.h"

#include <utility>

#include "longspan/base/config.h"
#include "longspan/kernels/rows/vector.h"

namespace longspan {

namespace {
constexpr std::string_view kFinalMeter = "final norm";
constexpr std::string_view kStreamsMeter = "streams";

Phase phase_of(const Pass& pass) { return pass.recomputing ? Phase::kBackward : Phase::kForward; }
}  // namespace

std::string mechanism_of(const std::string& attention, std::size_t layer) {
  const std::vector<std::string> turns = split_list(attention, '|');
  return turns[layer % turns.size()];
}

Stack::Stack(Parameters& parameters, const std::string& name, const StackConfig& config)
    : config_(config) {
  for (std::size_t i = 0; i < config.layers; ++i) {
    const std::string layer = name + "." + std::to_string(i);
    MultiHeadAttentionConfig attention = config.attention;
    attention.stack = name;
    attention.layer = i;
    attention.attention = mechanism_of(config.attention.attention, i);
    add_residual(std::make_unique<MultiHeadAttention>(parameters, layer + ".attention", attention),
                 parameters, layer + ".attention_norm");
    if (config.cross) {
      MultiHeadAttentionConfig cross = attention;
      cross.cross = true;
      cross.causal = false;
      cross.rotary = nullptr;
      if (!config.cross_attention.empty()) {
        cross.attention = mechanism_of(config.cross_attention, i);
      }
      add_residual(std::make_unique<MultiHeadAttention>(parameters, layer + ".cross", cross),
                   parameters, layer + ".cross_norm");
    }
    add_residual(
        std::make_unique<FeedForward>(parameters, layer + ".feed_forward", config.feed_forward),
        parameters, layer + ".feed_forward_norm");
  }
  if (config.wiring != Wiring::kPostNorm && config.final_norm) {
    final_norm_ = std::make_unique<Norm>(parameters, name + ".norm", config.norm, output_width(),
                                         config.epsilon);
  }
}

void Stack::add_residual(std::unique_ptr<Branch> branch, Parameters& parameters,
                         const std::string& name) {
  residuals_.emplace_back(
      std::move(branch),
      std::make_unique<Norm>(parameters, name, config_.norm, width(), config_.epsilon),
      config_.wiring, width(), config_.dropout);
}

Pass Stack::pass_of(const Pass& pass, std::size_t i) const {
  Pass own = pass;
  own.key = derive(pass.key, i);
  if (!pass.histories.empty() && i % sublayers() == 0)
    own.history = &pass.histories[i / sublayers()];
  return own;
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
                      Arena& arena) const {
  const std::size_t first = layer * sublayers();
  for (std::size_t i = 0; i < sublayers(); ++i) {
    const Place::Scope place(residuals_[first + i].branch().meter_name(), phase_of(pass));
    const Matrix to = i + 1 == sublayers() ? y : arena.matrix(pass.rows(), width());
    residuals_[first + i].forward(pass_of(pass, first + i), x, to,
                                  saved == nullptr ? nullptr : saved + i, arena);
    x = to;
  }
}

Matrix Stack::forward_frozen(const Pass& pass, Matrix x, Arena& arena) const {
  if (config_.frozen == 0) return x;
  Matrix other = arena.matrix(pass.rows(), width());
  for (std::size_t layer = 0; layer < config_.frozen; ++layer) {
    const Place::Block block(layer);
    const Arena::Frame frame(arena);
    run_layer(pass, layer, x, other, nullptr, arena);
    std::swap(x, other);
  }
  return x;
}

void Stack::forward_streams(const Pass& pass, Matrix x, Tape& tape, Arena& arena) const {
  tape.a = x;
  tape.b = arena.matrix(pass.rows(), width());
  copy(tape.a, tape.b);
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    const Place::Block block(i / sublayers());
    residuals_[i].add_to(pass_of(pass, i), i % 2 == 0 ? tape.b : tape.a,
                         i % 2 == 0 ? tape.a : tape.b, arena);
  }
  const Place::Scope place(kStreamsMeter, Phase::kForward);
  tape.output = take_output(pass, arena);
  join_streams(tape.a, tape.b, tape.output);
}

Matrix Stack::forward(const Pass& pass, Matrix x, Tape& tape, Arena& arena) const {
  if (reversible()) {
    forward_streams(pass, x, tape, arena);
    return finish(pass, tape.output, &tape.final_norm, arena);
  }
  tape.output = forward_frozen(pass, x, arena);
  if (config_.checkpointing) {
    tape.inputs.resize(config_.layers);
    for (std::size_t layer = config_.frozen; layer < config_.layers; ++layer) {
      const Place::Block block(layer);
      tape.inputs[layer] = std::exchange(tape.output, arena.matrix(pass.rows(), width()));
      const Arena::Frame frame(arena);
      run_layer(pass, layer, tape.inputs[layer], tape.output, nullptr, arena);
    }
  } else {
    // Backward reads the input of a post-norm sublayer, but of a pre-norm one only what the
    // sublayer itself keeps: there two buffers take turns.
    tape.residuals.resize(residuals_.size());
    Matrix y;
    for (std::size_t i = frozen_sublayers(); i < residuals_.size(); ++i) {
      const Place::Block block(i / sublayers());
      const Place::Scope place(residuals_[i].branch().meter_name(), Phase::kForward);
      if (i == frozen_sublayers() || post_norm()) y = arena.matrix(pass.rows(), width());
      residuals_[i].forward(pass_of(pass, i), tape.output, y, &tape.residuals[i], arena);
      std::swap(tape.output, y);
    }
  }
  return finish(pass, tape.output, &tape.final_norm, arena);
}

Matrix Stack::backward(const Pass& pass, Tape& tape, Matrix g, Arena& arena) const {
  if (final_norm_ != nullptr) {
    {
      const Place::Scope scope(kFinalMeter, Phase::kUpdate);
      final_norm_->accumulate(tape.final_norm, g);
    }
    const Place::Scope scope(kFinalMeter, Phase::kBackward);
    final_norm_->backward(tape.final_norm, g, g, /*add=*/false);
  }
  if (reversible()) return backward_streams(pass, tape, g, arena);
  if (config_.checkpointing) {
    backward_layers(pass, tape, g, arena);
    return g;
  }
  for (std::size_t i = residuals_.size(); i-- > frozen_sublayers();) {
    const Place::Block block(i / sublayers());
    residuals_[i].backward(pass_of(pass, i), tape.residuals[i], g, arena);
  }
  return g;
}

void Stack::backward_layers(const Pass& pass, Tape& tape, Matrix g, Arena& arena) const {
  Pass again = pass;
  again.recomputing = true;
  tape.residuals.resize(sublayers());
  for (std::size_t layer = config_.layers; layer-- > config_.frozen;) {
    const Place::Block block(layer);
    const Place::Scope place(residuals_[layer * sublayers()].branch().meter_name(),
                             Phase::kBackward);
    const Arena::Frame frame(arena);
    const Matrix y = arena.matrix(pass.rows(), width());
    run_layer(again, layer, tape.inputs[layer], y, tape.residuals.data(), arena);
    for (std::size_t i = sublayers(); i-- > 0;) {
      const std::size_t sublayer = layer * sublayers() + i;
      residuals_[sublayer].backward(pass_of(pass, sublayer), tape.residuals[i], g, arena);
    }
  }
}

Matrix Stack::backward_streams(const Pass& pass, Tape& tape, Matrix g, Arena& arena) const {
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
    const Place::Block block(i / sublayers());
    const bool even = i % 2 == 0;
    residuals_[i].undo(pass_of(pass, i), even ? tape.b : tape.a, even ? tape.a : tape.b,
                       even ? g : other, even ? other : g, arena);
  }
  const Place::Scope scope(kStreamsMeter, Phase::kBackward);
  add(g, other, g);
  return g;
}

Matrix Stack::infer(const Pass& pass, Matrix x, std::span<KeyValueCache> caches,
                    Arena& arena) const {
  Matrix other = arena.matrix(pass.rows(), width());
  if (reversible()) copy(x, other);
  std::size_t layer = 0;
  for (std::size_t i = 0; i < residuals_.size(); ++i) {
    const Place::Block block(i / sublayers());
    Pass own = pass_of(pass, i);
    if (residuals_[i].branch().meter_name() == "mha" && !caches.empty())
      own.cache = &caches[layer++];
    if (reversible()) {
      residuals_[i].add_to(own, i % 2 == 0 ? other : x, i % 2 == 0 ? x : other, arena);
    } else {
      residuals_[i].forward(own, x, other, nullptr, arena);
      std::swap(x, other);
    }
  }
  if (reversible()) {
    const Matrix joined = config_.concatenates ? take_output(pass, arena) : x;
    join_streams(x, other, joined);
    x = joined;
  }
  return finish(pass, x, nullptr, arena);
}

}  // namespace longspan
