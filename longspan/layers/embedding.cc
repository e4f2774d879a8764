#include "longspan/layers/embedding.h"

#include <algorithm>
#include <cmath>

#include "longspan/base/error.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/layers/runs.h"

namespace longspan {

Embedding::Embedding(Parameters& parameters, const std::string& name, const EmbeddingConfig& config)
    : Embedding(
          parameters, name, config,
          config.stem.kind != StemKind::kTokens
              ? nullptr
              : &parameters.declare(name + ".tokens", config.vocab,
                                    config.width == 0 ? config.d_model : config.width,
                                    Initializer::normal(config.deviation), Role::kEmbedding)) {}

Embedding::Embedding(Parameters& parameters, const std::string& name, const EmbeddingConfig& config,
                     Parameter* table)
    : config_(config), table_(table) {
  config_.stem.width = width();
  stem_ = make_stem(parameters, name, config_.stem);
  require((stem_ == nullptr) != (table_ == nullptr),
          "[embedding] a stem beside a table of tokens, or neither; need one of them");
  const auto declare = [&](const char* own, std::size_t rows, std::size_t cols) {
    return &parameters.declare(name + own, rows, cols, Initializer::normal(config.deviation),
                               Role::kEmbedding);
  };
  if (config.positions == PositionKind::kLearned) {
    positions_ = declare(".positions", config.max_length + config.position_offset, width());
  }
  if (config.positions == PositionKind::kAxial) {
    require(config.axial_rows > 0 && config.axial_width > 0 && config.axial_width < width(),
            "[embedding] axial positions of {} rows of width {}; need at least one row and a width "
            "below {}",
            config.axial_rows, config.axial_width, width());
    positions_ = declare(".axial_rows", config.axial_rows, config.axial_width);
    axial_columns_ = declare(".axial_columns", axial_columns(), width() - config.axial_width);
  }
  if (config.token_types > 0 && config.embeds_types) {
    types_ = declare(".types", config.token_types, width());
  }
  if (config.norm) {
    norm_ = std::make_unique<Norm>(parameters, name + ".norm", config.norm_kind, width(),
                                   config.epsilon, Role::kEmbedding, config.norm_bias);
  }
  if (config.projection || width() != config.d_model) {
    projection_.emplace(parameters, name + ".projection", width(), config.d_model,
                        config.projection_bias, config.deviation, Role::kEmbedding);
  }
}

void Embedding::check(const Pass& pass, const TokenInput& input) const {
  if (stem_ != nullptr) {
    const std::size_t each = stem_->features(pass.length);
    require(pass.lengths.empty() && !pass.packed && input.features.size() == pass.batch * each,
            "[embedding] {} features of {} sequences; need {} of each, and no lengths",
            input.features.size(), pass.batch, each);
  } else {
    check_tokens(pass, input);
  }
  require(!adds_positions() || input.first_position + pass.length <= config_.max_length,
          "[embedding] position {} is asked for; the model has {}",
          input.first_position + pass.length, config_.max_length);
  require(config_.positions != PositionKind::kTemporal || input.times.size() == pass.rows(),
          "[embedding] {} times for {} tokens; need as many", input.times.size(), pass.rows());
  require(input.types.empty() || input.types.size() == pass.rows(),
          "[embedding] {} token types for {} tokens; need as many", input.types.size(),
          pass.rows());
  for (const std::int32_t type : input.types) {
    require(type >= 0 && static_cast<std::size_t>(type) < config_.token_types,
            "[embedding] token type {}; the model has {}", type, config_.token_types);
  }
}

void Embedding::check_tokens(const Pass& pass, const TokenInput& input) const {
  require(!pass.packed || input.tokens.size() == pass.rows(),
          "[embedding] {} tokens; need {} of {} packed sequences", input.tokens.size(), pass.rows(),
          pass.batch);
  require(input.tokens.size() == pass.rows(), "[embedding] {} tokens; need {} sequences of {}",
          input.tokens.size(), pass.batch, pass.length);
  for (const std::int32_t token : input.tokens) {
    require(token >= 0 && static_cast<std::size_t>(token) < config_.vocab,
            "[embedding] token {} is outside the vocabulary of {}", token, config_.vocab);
  }
}

void Embedding::allocate() {
  if (config_.positions == PositionKind::kSinusoidal ||
      config_.positions == PositionKind::kSinusoidalHalves) {
    sinusoids_ = sinusoidal_table(config_.positions, config_.max_length, width());
  }
}

void Embedding::add_positions(const Pass& pass, const TokenInput& input, Matrix x) const {
  if (config_.positions == PositionKind::kTemporal) return add_time_waves(input.times, x);
  const std::size_t first = input.first_position;
  if (axial_columns_ == nullptr) {
    require(positions_ != nullptr || Dry::on() || !sinusoids_.empty(),
            "[embedding] the table of positions has no memory; allocate first");
    const ConstMatrix table = positions_ != nullptr
                                  ? positions_->matrix()
                                  : ConstMatrix(sinusoids_.data(), config_.max_length, x.cols);
    for_each_run(pass, [&](const Run& run) {
      add_mapped_rows(table, positions_of(run.pass, first), run.rows(x));
    });
    return;
  }
  const std::size_t width = config_.axial_width;
  for_each_run(pass, [&](const Run& run) {
    const Matrix own = run.rows(x);
    add_mapped_rows(positions_->matrix(), axial_row_of(run.pass, first), own.slice_cols(0, width));
    add_mapped_rows(axial_columns_->matrix(), axial_column_of(run.pass, first),
                    own.slice_cols(width, x.cols - width));
  });
}

void Embedding::accumulate_positions(const Pass& pass, std::size_t first, ConstMatrix g) const {
  if (axial_columns_ == nullptr) {
    for_each_run(pass, [&](const Run& run) {
      sum_mapped_rows(run.rows(g), positions_of(run.pass, first), positions_->gradient_matrix());
    });
    return;
  }
  const std::size_t width = config_.axial_width;
  for_each_run(pass, [&](const Run& run) {
    const ConstMatrix own = run.rows(g);
    sum_mapped_rows(own.slice_cols(0, width), axial_row_of(run.pass, first),
                    positions_->gradient_matrix());
    sum_mapped_rows(own.slice_cols(width, g.cols - width), axial_column_of(run.pass, first),
                    axial_columns_->gradient_matrix());
  });
}

void Embedding::add_types(const TokenInput& input, Matrix x, Arena& arena) const {
  if (input.types.empty()) {
    add_mapped_rows(types_->matrix(), {.modulo = 1}, x);
    return;
  }
  const Arena::Frame frame(arena);
  const Matrix rows = arena.matrix(x.rows, x.cols);
  gather_rows(types_->matrix(), input.types, rows);
  add(rows, x, x);
}

Matrix Embedding::embed(const Pass& pass, const TokenInput& input, EmbeddingSaved* saved,
                        Arena& arena) const {
  const Place::Scope place(kMeter, Phase::kForward);
  const Matrix x = arena.matrix(pass.rows(), config_.d_model);
  if (saved != nullptr && norm_ != nullptr) saved->norm = norm_->save(pass.rows(), arena);
  if (!projection_) {
    assemble(pass, input, {x, {}}, nullptr, saved, arena);
  } else if (saved != nullptr) {
    saved->projected = arena.matrix(pass.rows(), width());
    assemble(pass, input, {saved->projected, {}}, nullptr, saved, arena);
    projection_->forward(saved->projected, x);
  } else {
    const Arena::Frame frame(arena);
    const Matrix before = arena.matrix(pass.rows(), width());
    assemble(pass, input, {before, {}}, nullptr, saved, arena);
    projection_->forward(before, x);
  }
  finish(pass, x);
  return x;
}

void Embedding::observe(const Pass& pass, const TokenInput& input, const EmbeddingOutputs& outputs,
                        const Perturbation* error, Norm::Saved* saved, Arena& arena) const {
  require(!projection_ && stem_ == nullptr,
          "[rule] the outputs of a projected embedding or a stem cannot be compared between two "
          "passes; need backpropagation");
  EmbeddingSaved own;
  if (saved != nullptr) own.norm = *saved;
  assemble(pass, input, outputs, error, saved == nullptr ? nullptr : &own, arena);
  finish(pass, outputs.x);
}

void Embedding::assemble(const Pass& pass, const TokenInput& input, const EmbeddingOutputs& outputs,
                         const Perturbation* error, EmbeddingSaved* saved, Arena& arena) const {
  const Place::Scope scope(kMeter, Phase::kForward);
  const Matrix x = outputs.x;
  if (stem_ != nullptr) {
    stem_->forward(stem_input(pass, input), x, saved == nullptr ? nullptr : &saved->stem, arena);
  } else {
    gather_rows(table_->weights(), input.tokens, x);
  }
  if (error != nullptr) perturb(pass, *error, x);
  if (config_.scaled) scale(std::sqrt(static_cast<float>(config_.d_model)), x);
  if (adds_positions()) add_positions(pass, input, x);
  if (types_ != nullptr) add_types(input, x, arena);
  if (outputs.before_norm.data != nullptr) copy(x, outputs.before_norm);
  if (norm_ != nullptr) norm_->forward(x, x, saved == nullptr ? Norm::Saved{} : saved->norm);
}

void Embedding::finish(const Pass& pass, Matrix x) const {
  const Place::Scope scope(kMeter, Phase::kForward);
  if (drops(pass)) dropout(drop(pass), x, x);
  if (config_.masked) mask(pass, x);
}

void Embedding::mask(const Pass& pass, Matrix x) const {
  if (!pass.packed) zero_padding({pass.length, pass.lengths}, x);
}

bool Embedding::frozen() const {
  const auto still = [](const Parameter* p) { return p == nullptr || p->constant; };
  return still(table_) && (stem_ == nullptr || stem_->frozen()) && still(positions_) &&
         still(types_) && (norm_ == nullptr || norm_->frozen()) &&
         (!projection_ || projection_->weight().constant);
}

void Embedding::backward(const Pass& pass, const TokenInput& input, const EmbeddingSaved& saved,
                         Matrix g, Arena& arena) const {
  if (frozen()) return;
  const Arena::Frame frame(arena);
  if (config_.masked) mask(pass, g);
  if (drops(pass)) {
    const Place::Scope scope(kMeter, Phase::kBackward);
    dropout(drop(pass), g, g);
  }
  if (projection_) {
    {
      const Place::Scope scope(kMeter, Phase::kUpdate);
      projection_->accumulate(saved.projected, g);
    }
    const Place::Scope scope(kMeter, Phase::kBackward);
    const Matrix before = arena.matrix(pass.rows(), width());
    projection_->backward(g, before);
    g = before;
  }
  if (norm_ != nullptr) {
    {
      const Place::Scope scope(kMeter, Phase::kUpdate);
      norm_->accumulate(saved.norm, g);
    }
    const Place::Scope scope(kMeter, Phase::kBackward);
    norm_->backward(saved.norm, g, g, /*add=*/false);
  }
  accumulate(pass, input, g);
  if (stem_ != nullptr && !stem_->frozen()) {
    stem_->backward(stem_input(pass, input), saved.stem, g, arena);
  }
}

void Embedding::accumulate(const Pass& pass, const TokenInput& input, Matrix g) const {
  const Place::Scope scope(kMeter, Phase::kUpdate);
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
  if (table_ == nullptr || table_->constant) return;
  if (config_.padding_token >= 0) zero_rows_of(config_.padding_token, input.tokens, g);
  if (config_.scaled) scale(std::sqrt(static_cast<float>(config_.d_model)), g);
  scatter_add_rows(g, input.tokens, table_->gradient_matrix());
}

}  // namespace longspan
