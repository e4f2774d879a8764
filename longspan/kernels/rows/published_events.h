// What the published code of the Transformer Hawkes process makes of a batch of sequences
// (base/published_hawkes.h).
//
// Counted: 20 FLOPs (kSoftmax) per score, 30 with the gradient.
#pragma once

#include "longspan/base/published_hawkes.h"

namespace longspan {

struct PublishedRows {
  std::size_t batch = 0;
  std::size_t length = 0;
  std::span<const std::int32_t> types;    // [batch·length]
  std::span<const float> times;           // [batch·length]
  std::span<const std::int32_t> lengths;  // events of each sequence; empty: all
  std::span<const float> uniform = {};    // [batch, length − 1, kPublishedDraws], or empty: drawn

  PublishedSequence sequence(std::size_t i) const;
};

// The sum only; scores are kept.
PublishedSums published_events(const PublishedHawkes& model, ConstMatrix scores,
                               const PublishedRows& rows);
// In place: scores become the gradient of scale·L.
PublishedSums published_events_gradient(const PublishedHawkes& model, Matrix scores,
                                        const PublishedRows& rows, float scale);

}  // namespace longspan
