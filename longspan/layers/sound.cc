#include "longspan/layers/sound.h"

#include "longspan/base/error.h"
#include "longspan/base/place.h"
#include "longspan/base/sizes.h"

namespace longspan {

namespace {

const StemConfig& audible(const StemConfig& c) {
  require(c.channels > 0, "[stem] sound of {} channels; need at least 1", c.channels);
  return c;
}

}  // namespace

SoundStem::SoundStem(Parameters& parameters, const std::string& name, const StemConfig& config)
    : config_(audible(config)),
      first_(parameters, name + ".first", kTaps * config.channels, config.width, /*bias=*/true,
             config.deviation, Role::kEmbedding),
      second_(parameters, name + ".second", kTaps * config.width, config.width, /*bias=*/true,
              config.deviation, Role::kEmbedding) {}

std::size_t SoundStem::features(std::size_t length) const {
  return size_product(config_.channels, kEvery, length);
}

Window SoundStem::first_window(const StemInput& input) const {
  return {.batch = input.batch,
          .channels = config_.channels,
          .width = kEvery * input.length,
          .tap_cols = kTaps,
          .pad_cols = 1};
}

Window SoundStem::second_window(const StemInput& input) const {
  Window w = first_window(input);
  w.channels = config_.width;
  w.stride = kEvery;
  return w;
}

void SoundStem::forward(const StemInput& input, Matrix x, Saved* saved, Arena& arena) const {
  const Place::Scope scope(kMeter, Phase::kForward);
  const Window w1 = first_window(input);
  const Window w2 = second_window(input);
  Saved own{};
  const auto take = [&](std::size_t rows) { return arena.matrix(rows, config_.width); };
  if (saved != nullptr) own = *saved = {take(w1.rows()), take(w1.rows()), take(w2.rows())};
  const Arena::Frame frame(arena);
  if (saved == nullptr) own[kHidden] = take(w1.rows());
  {
    const Arena::Frame laid_out(arena);
    const Matrix columns = arena.matrix(w1.rows(), w1.cols());
    unfold_planes(w1, input.features.data(), columns);
    first_.forward(columns, Activation::kGelu, own[kFirst], own[kHidden]);
  }
  const Matrix columns = arena.matrix(w2.rows(), w2.cols());
  unfold_rows(w2, own[kHidden], columns);
  second_.forward(columns, Activation::kGelu, own[kSecond], x);
}

void SoundStem::backward(const StemInput& input, const Saved& saved, Matrix g, Arena& arena) const {
  const Arena::Frame frame(arena);
  const Window w1 = first_window(input);
  const Window w2 = second_window(input);
  const Matrix dh = arena.matrix(w1.rows(), config_.width);
  {
    const Arena::Frame laid_out(arena);
    const Matrix columns = arena.matrix(w2.rows(), w2.cols());
    {
      const Place::Scope scope(kMeter, Phase::kBackward);
      activation_backward(Activation::kGelu, saved[kSecond], g, g);
    }
    {
      const Place::Scope scope(kMeter, Phase::kUpdate);
      unfold_rows(w2, saved[kHidden], columns);
      second_.accumulate(columns, g);
    }
    const Place::Scope scope(kMeter, Phase::kBackward);
    second_.backward(g, columns);
    fold_rows(w2, columns, dh);
    activation_backward(Activation::kGelu, saved[kFirst], dh, dh);
  }
  const Place::Scope scope(kMeter, Phase::kUpdate);
  const Matrix columns = arena.matrix(w1.rows(), w1.cols());
  unfold_planes(w1, input.features.data(), columns);
  first_.accumulate(columns, dh);
}

}  // namespace longspan
