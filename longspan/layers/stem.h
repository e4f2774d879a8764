// A stem: what makes the first states of a sequence where they are no look-up of tokens. It reads
// the features of a batch, and everything else of an embedding (layers/embedding.h) is as of tokens.
//
//   patches   of an image, C channels of S² pixels, cut into (S/p)² patches of p² pixels, row by row:
//             x_i = W·patch_i + b, W [d, C·p²]; before them, with class_token, a learned vector
//             (Dosovitskiy et al., 2021, arXiv:2010.11929)
//   sound     of C numbers a frame, two convolutions over 3 frames, the second of which takes every
//             other place: x = gelu(conv₂(gelu(conv₁(frames)))), of 2·n frames n rows
//             (Radford et al., 2023, arXiv:2212.04356)
//
// Features are [batch, C, S, S] or [batch, C, frames]. Sequences are whole: a stem knows neither
// padding nor packed batches.
//
// A convolution is a product with what it reads laid out in rows (kernels/rows/unfold.h), of which
// what is outside is zeros that are multiplied too. B sequences, P patches, F = 2·n frames:
//
//   patches   MACCs B·P·C·p²·d forward and update, FLOPs B·P·d for the bias and B·d for the token in
//             each
//   sound     MACCs B·F·3·C·d + B·n·3·d² forward and update, B·n·3·d² backward; FLOPs B·(F + n)·d
//             for the biases forward and update; gelu B·(F + n)·d elements; backward B·(3·n − 1)·d
//             additions of what three places at most give back to a frame
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "longspan/base/arena.h"
#include "longspan/base/model_kind.h"
#include "longspan/base/parameter.h"
#include "longspan/base/view.h"

namespace longspan {

struct StemConfig {
  StemKind kind = StemKind::kTokens;
  std::size_t channels = 0;
  std::size_t image = 0;  // S
  std::size_t patch = 0;  // p
  bool bias = true;       // of patches
  bool class_token = true;
  std::size_t width = 0;  // d
  float deviation = 0.02F;
};

struct StemInput {
  std::size_t batch = 0;
  std::size_t length = 0;  // rows that a sequence becomes
  std::span<const float> features;
};

class Stem {
 public:
  static constexpr std::string_view kMeter = "stem";
  using Saved = std::array<Matrix, 3>;

  virtual ~Stem() = default;
  // Numbers of a sequence that becomes so many rows. Throws Error where none can.
  virtual std::size_t features(std::size_t length) const = 0;
  // With `saved` null nothing is kept.
  virtual void forward(const StemInput& input, Matrix x, Saved* saved, Arena& arena) const = 0;
  // Adds to the gradients of the parameters, from g = ∂L/∂x, which it spoils.
  virtual void backward(const StemInput& input, const Saved& saved, Matrix g,
                        Arena& arena) const = 0;
  virtual bool frozen() const = 0;
};

// Null for tokens.
std::unique_ptr<Stem> make_stem(Parameters& parameters, const std::string& name,
                                const StemConfig& config);

}  // namespace longspan
