// Which matrices of a layer have biases.
#pragma once

#include "longspan/models/config.h"

namespace longspan {

struct Biases {
  bool projections = false;  // of queries, keys and values
  bool output = false;       // behind the heads
  bool feed_forward = false;
};

inline void set_biases(const Biases& b, ModelConfig& c) {
  c.bias = b.projections || b.output || b.feed_forward;
  c.attention_bias = b.projections || b.output;
  c.projection_bias = b.projections;
  c.output_bias = b.output;
  c.feed_forward_bias = b.feed_forward;
}

}  // namespace longspan
