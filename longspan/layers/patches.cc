#include "longspan/layers/patches.h"

#include "longspan/base/error.h"
#include "longspan/base/place.h"
#include "longspan/kernels/rows/sequence.h"
#include "longspan/kernels/rows/vector.h"
#include "longspan/layers/runs.h"

namespace longspan {

namespace {

const StemConfig& checked(const StemConfig& c) {
  require(c.channels > 0 && c.patch > 0 && c.image >= c.patch && c.image % c.patch == 0,
          "[stem] an image of {} channels and a side of {} in patches of {}; need at least one of "
          "each, and whole patches",
          c.channels, c.image, c.patch);
  return c;
}

}  // namespace

PatchStem::PatchStem(Parameters& parameters, const std::string& name, const StemConfig& config)
    : config_(checked(config)),
      patches_(parameters, name + ".patches", config.channels * config.patch * config.patch,
               config.width, config.bias, config.deviation, Role::kEmbedding) {
  if (!config.class_token) return;
  token_ = &parameters.declare(name + ".class_token", 1, config.width,
                               Initializer::normal(config.deviation), Role::kEmbedding);
}

Window PatchStem::window(std::size_t batch) const {
  return {.batch = batch,
          .channels = config_.channels,
          .height = config_.image,
          .width = config_.image,
          .tap_rows = config_.patch,
          .tap_cols = config_.patch,
          .stride = config_.patch};
}

std::size_t PatchStem::features(std::size_t rows) const {
  require(rows == length(), "[stem] a sequence of {} rows; an image has {}", rows, length());
  return config_.channels * config_.image * config_.image;
}

void PatchStem::forward(const StemInput& input, Matrix x, Saved* /*saved*/, Arena& arena) const {
  const Place::Scope scope(kMeter, Phase::kForward);
  const Arena::Frame frame(arena);
  const Window w = window(input.batch);
  const Matrix columns = arena.matrix(w.rows(), w.cols());
  unfold_planes(w, input.features.data(), columns);
  if (token_ == nullptr) return patches_.forward(columns, x);
  const Matrix rows = arena.matrix(w.rows(), x.cols);
  patches_.forward(columns, rows);
  copy(Heads::from_columns(rows, w.batch, 1), behind_token(x, w.batch));
  const Matrix first = first_rows(x, length());
  fill(first, 0.0F);
  add_mapped_rows(token_->matrix(), {.modulo = 1}, first);
}

void PatchStem::backward(const StemInput& input, const Saved& /*saved*/, Matrix g,
                         Arena& arena) const {
  const Place::Scope scope(kMeter, Phase::kUpdate);
  const Arena::Frame frame(arena);
  const Window w = window(input.batch);
  const Matrix columns = arena.matrix(w.rows(), w.cols());
  unfold_planes(w, input.features.data(), columns);
  Matrix rows = g;
  if (token_ != nullptr) {
    rows = arena.matrix(w.rows(), g.cols);
    copy(behind_token(g, w.batch), Heads::from_columns(rows, w.batch, 1));
    add_column_sums(first_rows(g, length()), token_->gradient.data());
  }
  patches_.accumulate(columns, rows);
}

}  // namespace longspan
