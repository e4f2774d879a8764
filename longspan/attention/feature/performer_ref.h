// The Performer from its definition, with its matrix, for any scalar type.
#pragma once

#include <complex>
#include <vector>

#include "longspan/attention/feature/linear_attention.h"
#include "longspan/attention/feature/performer.h"
#include "longspan/kernels/feature/feature_ref.h"

namespace longspan {

// Tensors has shape, q, k and v in a scalar type, and the constants of a mechanism whose layer is
// called `name`.
template <class Tensors>
auto performer_reference(const PerformerConfig& config, const Tensors& t,
                         const std::string& name = "attention") {
  using T = typename decltype(t.q)::value_type;
  FeatureMap map = PerformerAttention::map(config, t.shape.d);
  const auto constant = [&](const char* what) {
    std::vector<float> values;
    for (const T& x : t.parameters.at(name + ".performer." + what)) {
      values.push_back(static_cast<float>(std::real(x)));
    }
    return values;
  };
  std::vector<float> omega;
  std::vector<float> norms;
  if (map.projection.hadamard) {
    omega = constant("signs");
    norms = constant("norms");
    map.projection.signs = omega.data();
    map.projection.norms = norms.data();
  } else {
    omega = constant("features");
    map.projection.dense = {omega.data(), map.projection.rows, t.shape.d};
  }
  return FeatureReference<T>{map, feature_shape(t.shape), t.q, t.k, t.v}.forward();
}

}  // namespace longspan
