#include "longspan/layers/embedding.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/error.h"
#include "longspan/kernels/vector.h"

namespace longspan {

namespace {
constexpr std::string_view kMeter = "embedding";
}

Embedding::Embedding(Parameters& parameters, const std::string& name, const EmbeddingConfig& config)
    : Embedding(parameters, name, config,
                parameters.declare(name + ".tokens", config.vocab, config.d_model,
                                   Initializer::normal(config.deviation))) {}

Embedding::Embedding(Parameters& parameters, const std::string& name, const EmbeddingConfig& config,
                     Parameter& table)
    : config_(config), table_(&table) {
  const auto normal = Initializer::normal(config.deviation);
  if (config.positions == PositionKind::kLearned) {
    positions_ = &parameters.declare(
        name + ".positions", config.max_length + config.position_offset, config.d_model, normal);
  }
  if (config.positions == PositionKind::kAxial) {
    require(config.axial_rows > 0 && config.axial_width > 0 && config.axial_width < config.d_model,
            "[embedding] axial positions of {} rows of width {}; need at least one row and a width "
            "below {}",
            config.axial_rows, config.axial_width, config.d_model);
    positions_ =
        &parameters.declare(name + ".axial_rows", config.axial_rows, config.axial_width, normal);
    axial_columns_ = &parameters.declare(name + ".axial_columns", axial_columns(),
                                         config.d_model - config.axial_width, normal);
  }
  if (config.positions == PositionKind::kSinusoidal) {
    sinusoids_ = sinusoidal_table(config.max_length, config.d_model);
  }
  if (config.token_types > 0) {
    types_ = &parameters.declare(name + ".types", config.token_types, config.d_model, normal);
  }
  if (config.norm) {
    norm_ = std::make_unique<Norm>(parameters, name + ".norm", config.norm_kind, config.d_model,
                                   config.epsilon);
  }
}

void Embedding::check(const Pass& pass, const TokenInput& input) const {
  require(input.tokens.size() == pass.rows(), "[embedding] {} tokens; need {} sequences of {}",
          input.tokens.size(), pass.batch, pass.length);
  require(!adds_positions() || input.first_position + pass.length <= config_.max_length,
          "[embedding] position {} is asked for; the model has {}",
          input.first_position + pass.length, config_.max_length);
  for (const std::int32_t token : input.tokens) {
    require(token >= 0 && static_cast<std::size_t>(token) < config_.vocab,
            "[embedding] token {} is outside the vocabulary of {}", token, config_.vocab);
  }
  require(input.types.empty() || input.types.size() == pass.rows(),
          "[embedding] {} token types for {} tokens; need as many", input.types.size(),
          pass.rows());
  for (const std::int32_t type : input.types) {
    require(type >= 0 && static_cast<std::size_t>(type) < config_.token_types,
            "[embedding] token type {}; the model has {}", type, config_.token_types);
  }
}

ConstMatrix Embedding::positions(std::size_t first, std::size_t count) const {
  if (positions_ != nullptr) {
    return positions_->matrix().slice_rows(first + config_.position_offset, count);
  }
  return {sinusoids_.data() + first * config_.d_model, count, config_.d_model};
}

void Embedding::add_positions(const Pass& pass, std::size_t first, Matrix x) const {
  for (std::size_t b = 0; b < pass.batch; ++b) {
    const Matrix rows = x.slice_rows(b * pass.length, pass.length);
    if (axial_columns_ == nullptr) {
      add(rows, positions(first, pass.length), rows);
      continue;
    }
    const std::size_t width = config_.axial_width;
    for (std::size_t i = 0; i < pass.length; ++i) {
      const Matrix row = rows.slice_rows(i, 1);
      const Matrix left = row.slice_cols(0, width);
      const Matrix right = row.slice_cols(width, row.cols - width);
      add(left, positions_->matrix().slice_rows((first + i) / axial_columns(), 1), left);
      add(right, axial_columns_->matrix().slice_rows((first + i) % axial_columns(), 1), right);
    }
  }
}

void Embedding::accumulate_positions(const Pass& pass, std::size_t first, ConstMatrix g) const {
  const Matrix dp = positions_->gradient_matrix();
  for (std::size_t b = 0; b < pass.batch; ++b) {
    const ConstMatrix rows = g.slice_rows(b * pass.length, pass.length);
    if (axial_columns_ == nullptr) {
      const Matrix to = dp.slice_rows(first + config_.position_offset, pass.length);
      add(to, rows, to);
      continue;
    }
    const std::size_t width = config_.axial_width;
    const Matrix dc = axial_columns_->gradient_matrix();
    for (std::size_t i = 0; i < pass.length; ++i) {
      const ConstMatrix row = rows.slice_rows(i, 1);
      const Matrix left = dp.slice_rows((first + i) / axial_columns(), 1);
      const Matrix right = dc.slice_rows((first + i) % axial_columns(), 1);
      add(left, row.slice_cols(0, width), left);
      add(right, row.slice_cols(width, row.cols - width), right);
    }
  }
}

void Embedding::add_types(const TokenInput& input, Matrix x, Arena& arena) const {
  if (input.types.empty()) {
    for (std::size_t i = 0; i < x.rows; ++i) {
      add(x.slice_rows(i, 1), types_->matrix().slice_rows(0, 1), x.slice_rows(i, 1));
    }
    return;
  }
  const Arena::Frame frame(arena);
  const Matrix rows = arena.matrix(x.rows, x.cols);
  gather_rows(types_->matrix(), input.types, rows);
  add(rows, x, x);
}

void Embedding::forward(const Pass& pass, const TokenInput& input, Matrix x, Norm::Saved* saved,
                        Arena& arena) const {
  if (saved != nullptr && norm_ != nullptr) *saved = norm_->save(pass.rows(), arena);
  observe(pass, input, {x, {}}, nullptr, saved, arena);
}

void Embedding::observe(const Pass& pass, const TokenInput& input, const EmbeddingOutputs& outputs,
                        const Perturbation* error, Norm::Saved* saved, Arena& arena) const {
  const Meter::Scope scope(kMeter, Phase::kForward);
  const Matrix x = outputs.x;
  gather_rows(table_->matrix(), input.tokens, x);
  if (error != nullptr) perturb(pass, *error, x);
  if (config_.scaled) scale(std::sqrt(static_cast<float>(config_.d_model)), x);
  if (adds_positions()) add_positions(pass, input.first_position, x);
  if (types_ != nullptr) add_types(input, x, arena);
  if (outputs.before_norm.data != nullptr) copy(x, outputs.before_norm);
  if (norm_ != nullptr) norm_->forward(x, x, saved == nullptr ? Norm::Saved{} : *saved);
  if (drops(pass)) dropout(drop(pass), x, x);
  if (config_.masked) mask(pass, x);
}

void Embedding::mask(const Pass& pass, Matrix x) const {
  for (std::size_t b = 0; b < pass.batch && !pass.lengths.empty(); ++b) {
    const auto real = static_cast<std::size_t>(pass.lengths[b]);
    fill(x.slice_rows(b * pass.length + real, pass.length - real), 0.0F);
  }
}

bool Embedding::frozen() const {
  const auto still = [](const Parameter* p) { return p == nullptr || p->constant; };
  return table_->constant && still(positions_) && still(types_) &&
         (norm_ == nullptr || norm_->frozen());
}

void Embedding::backward(const Pass& pass, const TokenInput& input, const Norm::Saved& saved,
                         Matrix g) const {
  if (frozen()) return;
  if (config_.masked) mask(pass, g);
  if (drops(pass)) {
    const Meter::Scope scope(kMeter, Phase::kBackward);
    dropout(drop(pass), g, g);
  }
  if (norm_ != nullptr) {
    {
      const Meter::Scope scope(kMeter, Phase::kUpdate);
      norm_->accumulate(saved, g);
    }
    const Meter::Scope scope(kMeter, Phase::kBackward);
    norm_->backward(saved, g, g, /*add=*/false);
  }
  accumulate(pass, input, g);
}

void Embedding::accumulate(const Pass& pass, const TokenInput& input, Matrix g) const {
  const Meter::Scope scope(kMeter, Phase::kUpdate);
  if (positions_ != nullptr && !positions_->constant) {
    accumulate_positions(pass, input.first_position, g);
  }
  if (types_ != nullptr && !types_->constant) {
    if (input.types.empty()) {
      add_column_sums(g, types_->gradient.data());
    } else {
      scatter_add_rows(g, input.types, types_->gradient_matrix());
    }
  }
  if (table_->constant) return;
  if (config_.padding_token >= 0) {
    for (std::size_t i = 0; i < g.rows; ++i) {
      if (input.tokens[i] == config_.padding_token) std::ranges::fill(g.row(i), 0.0F);
    }
  }
  if (config_.scaled) scale(std::sqrt(static_cast<float>(config_.d_model)), g);
  scatter_add_rows(g, input.tokens, table_->gradient_matrix());
}

Cost Embedding::cost(const Pass& pass) const {
  const std::uint64_t elements = std::uint64_t{pass.rows()} * config_.d_model;
  Cost cost;
  if (!table_->constant) cost.update += flops(Kind::kGather, elements);
  if (config_.scaled) {
    cost.forward += flops(Kind::kAdd, elements);
    if (!table_->constant) cost.update += flops(Kind::kAdd, elements);
  }
  if (adds_positions()) cost.forward += flops(Kind::kAdd, elements);
  if (positions_ != nullptr && !positions_->constant) cost.update += flops(Kind::kAdd, elements);
  if (types_ != nullptr) {
    cost.forward += flops(Kind::kAdd, elements);
    if (!types_->constant) {
      cost.update += flops(pass.typed ? Kind::kGather : Kind::kAdd, elements);
    }
  }
  if (norm_ != nullptr) cost += norm_->cost(pass.rows());
  if (drops(pass)) {
    cost.forward += flops(Kind::kDropout, elements);
    cost.backward += flops(Kind::kDropout, elements);
  }
  if (frozen()) cost = {.forward = cost.forward};
  return cost;
}

void Embedding::plan_forward(const Pass& pass, bool saves, ArenaPlan& plan) const {
  if (saves && norm_ != nullptr) plan.take(norm_->saved_bytes(pass.rows()));
  if (types_ != nullptr && pass.typed) {
    plan.touch(Arena::bytes_for(pass.rows() * config_.d_model));
  }
}

}  // namespace longspan
