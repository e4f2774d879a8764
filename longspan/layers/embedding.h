// Embedding:  x_i = s·E[token_i] + P[i] + T[type_i], s = 1 or √d, then an optional norm, an optional
// projection W·x + b, which may widen it, and dropout. A stem may stand in the place of the token
// table (stem.h): then s·E[token_i] is what it makes of the features.
//
//   dE[token_i] += s·dx_i,  dP[i] += dx_i,  dT[type_i] += dx_i
//
// A look-up, not a product with a one-hot matrix: forward M·d FLOPs for each addition, update M·d
// for each table; scaling M·d in each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longspan/base/integers.h"
#include "longspan/kernels/rows/sequence.h"
#include "longspan/layers/branch.h"
#include "longspan/layers/linear.h"
#include "longspan/layers/norm.h"
#include "longspan/layers/positions.h"
#include "longspan/layers/stem.h"

namespace longspan {

struct EmbeddingConfig {
  std::size_t vocab = 0;
  std::size_t d_model = 0;
  std::size_t width = 0;  // of everything before the projection; 0: d_model
  std::size_t max_length = 0;
  PositionKind positions = PositionKind::kLearned;
  std::size_t position_offset = 0;  // learned: the first token has this position
  std::size_t axial_rows = 0;       // axial: R has this many, and this width
  std::size_t axial_width = 0;
  std::size_t token_types = 0;
  bool embeds_types = true;  // else they are checked and nothing more
  bool scaled = false;
  bool masked = false;  // padding becomes zeros at the end
  bool norm = false;
  bool projection = false;  // there is one whether or not the widths differ
  bool projection_bias = true;
  NormKind norm_kind = NormKind::kLayer;
  bool norm_bias = true;
  float epsilon = 1e-5F;
  float dropout = 0.0F;
  float deviation = 0.02F;
  std::int32_t padding_token = -1;  // its row receives no gradient from look-ups
  StemConfig stem = {};             // its width is the embedding's
};

struct TokenInput {
  std::span<const std::int32_t> tokens;  // of every row
  std::span<const std::int32_t> types;   // likewise, or empty: all type 0
  std::size_t first_position = 0;
  std::span<const float> times = {};     // likewise, of temporal positions
  std::span<const float> features = {};  // of a stem, which reads no tokens
};

// An error on its way into the embedding, added to the token vectors before anything else is:
//   E[token_i] + δ_i,   δ = scale·error·through + shift
struct Perturbation {
  ConstMatrix error;    // [rows, k], or empty
  ConstMatrix through;  // [k, d]; empty: the token table, as if `error` were added to the one-hots
  float scale = 1.0F;
  // [rows, d], or [batch, d] for whole sequences; or empty. With the token table it stands for
  // scale·error·E, which is then known already.
  ConstMatrix shift;

  bool in_vocabulary() const { return error.cols > 0 && through.cols == 0; }
};

// What the embedding gives: x, and what its norm (if it has one) receives.
struct EmbeddingOutputs {
  Matrix x;
  Matrix before_norm;
};

// What backward needs of a forward.
struct EmbeddingSaved {
  Norm::Saved norm;
  Matrix projected;  // what the projection received
  Stem::Saved stem;
};

class Embedding {
 public:
  static constexpr std::string_view kMeter = "embedding";

  Embedding(Parameters& parameters, const std::string& name, const EmbeddingConfig& config);
  // Shares the token table of another embedding, with positions of its own.
  Embedding(Parameters& parameters, const std::string& name, const EmbeddingConfig& config,
            Parameter* table);

  // Null where there is a stem.
  Parameter* table() const { return table_; }
  const Stem* stem() const { return stem_.get(); }
  // The fixed table of positions, where there is one.
  void allocate();
  void check(const Pass& pass, const TokenInput& input) const;

  // x, in memory of the arena. With `saved` null nothing else is kept.
  Matrix embed(const Pass& pass, const TokenInput& input, EmbeddingSaved* saved,
               Arena& arena) const;
  // Spoils g = ∂L/∂x.
  void backward(const Pass& pass, const TokenInput& input, const EmbeddingSaved& saved, Matrix g,
                Arena& arena) const;

  // Rules that compare two passes. Fills `outputs`, whose before_norm is used where has_norm();
  // with `error` as the modulated pass.
  void observe(const Pass& pass, const TokenInput& input, const EmbeddingOutputs& outputs,
               const Perturbation* error, Norm::Saved* saved, Arena& arena) const;
  // Table, positions, types and norm learn from scale·(a − a_err). The table's input is a one-hot
  // row plus, in the vocabulary, the error: then its update is dense.
  void learn(const Pass& pass, const TokenInput& input, const Perturbation& error,
             const EmbeddingOutputs& standard, const EmbeddingOutputs& modulated,
             const Norm::Saved& saved, float scale, Arena& arena) const;
  bool has_norm() const { return norm_ != nullptr; }
  Norm::Saved save_norm(const Pass& pass, Arena& arena) const {
    return norm_->save(pass.rows(), arena);
  }
  bool trained() const { return !frozen(); }

 private:
  static StemInput stem_input(const Pass& pass, const TokenInput& input) {
    return {.batch = pass.batch, .length = pass.length, .features = input.features};
  }
  std::size_t width() const { return config_.width == 0 ? config_.d_model : config_.width; }
  bool adds_positions() const {
    return config_.positions != PositionKind::kNone && config_.positions != PositionKind::kRotary;
  }
  // Which row of a table of positions each token reads; the pass is not packed.
  RowMap positions_of(const Pass& pass, std::size_t first) const {
    return {.period = pass.length, .first = first + config_.position_offset};
  }
  RowMap axial_row_of(const Pass& pass, std::size_t first) const {
    return {.period = pass.length, .first = first, .divide = axial_columns()};
  }
  RowMap axial_column_of(const Pass& pass, std::size_t first) const {
    return {.period = pass.length, .first = first, .modulo = axial_columns()};
  }
  // Nothing of it is trained.
  bool frozen() const;
  bool drops(const Pass& pass) const { return pass.training && config_.dropout > 0.0F; }
  // Zeros the rows of padding.
  void mask(const Pass& pass, Matrix x) const;
  // Everything before the projection; everything behind it.
  void assemble(const Pass& pass, const TokenInput& input, const EmbeddingOutputs& outputs,
                const Perturbation* error, EmbeddingSaved* saved, Arena& arena) const;
  void finish(const Pass& pass, Matrix x) const;
  Dropout drop(const Pass& pass) const { return {config_.dropout, derive(pass.key, "embedding")}; }
  void add_positions(const Pass& pass, const TokenInput& input, Matrix x) const;
  void accumulate_positions(const Pass& pass, std::size_t first, ConstMatrix g) const;
  std::size_t axial_columns() const { return divide_up(config_.max_length, config_.axial_rows); }
  void perturb(const Pass& pass, const Perturbation& error, Matrix x) const;
  // Everything but the norm and a stem, from the signal to what the norm receives; spoils it.
  void accumulate(const Pass& pass, const TokenInput& input, Matrix g) const;
  void check_tokens(const Pass& pass, const TokenInput& input) const;
  void add_types(const TokenInput& input, Matrix x, Arena& arena) const;

  EmbeddingConfig config_;
  Parameter* table_ = nullptr;
  std::unique_ptr<Stem> stem_;
  Parameter* positions_ = nullptr;      // P, or R
  Parameter* axial_columns_ = nullptr;  // C
  std::vector<float> sinusoids_;        // from allocate() on
  Parameter* types_ = nullptr;
  std::unique_ptr<Norm> norm_;
  std::optional<Linear> projection_;
};

}  // namespace longspan
