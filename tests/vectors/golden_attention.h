// Running one attention mechanism, or one layer around it, on a golden case.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "longspan/attention/attention.h"
#include "longspan/layers/branch.h"
#include "longspan/layers/multi_head_attention.h"
#include "tests/vectors/golden_case.h"

namespace longspan::golden {

Heads heads_of(std::vector<float>& data, const Shape& shape);

// q, k, v → out, and the gradients of Σ out⊙upstream.
struct AttentionCase {
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
  std::vector<float> upstream;
  std::vector<std::int32_t> key_lengths;
  AttentionInputs in;
  Shape shape_q;
  Shape shape_k;
  Shape shape_v;
  Shape shape_out;

  explicit AttentionCase(const Case& golden);
};

// Compares out64, grad.q, grad.k and grad.v. The mechanism is declared, its parameters are set.
void run_attention(const Case& golden, const Attention& attention, Comparison& comparison);

// The same and the gradients of the mechanism's own parameters, which have the reference's numbers:
// `ours` of a parameter, and the tensor of the case that it is.
struct OwnParameter {
  std::string_view ours;
  std::string_view theirs;
};
void run_sited_attention(const Case& golden, const std::string& specification,
                         std::span<const OwnParameter> parameters, Comparison& comparison);

// A layer's weight: the reference's name, without "w.", and ours, the layer being called "layer";
// perhaps some rows of ours only.
struct LayerWeight {
  std::string_view theirs;
  std::string_view ours;
  std::size_t first_row = 0;
  std::size_t rows = 0;  // 0: all
};

// Compares out64, grad.x and the gradients of the weights, which are read from the case.
void compare_layer(const Case& golden, const Branch& layer, Parameters& parameters,
                   std::span<const LayerWeight> weights, Comparison& comparison);

// The same of attention. A layer whose output projection is not among the weights ends before it.
void run_layer(const Case& golden, const MultiHeadAttentionConfig& config,
               std::span<const LayerWeight> weights, Comparison& comparison);

// The memory of one step of a layer without cross-attention.
Arena arena_of(const Branch& layer, const Pass& pass, std::size_t d_model);

}  // namespace longspan::golden
