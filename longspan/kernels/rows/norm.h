// Normalisation of rows.
//
//   kLayer  x̂ = (x − mean(x))·r,  r = 1/√(var(x) + ε);   y = γ⊙x̂ + β, or without β
//   kRms    x̂ = x·r,              r = 1/√(mean(x²) + ε); y = γ⊙x̂
//
// Backward, with g = γ⊙dy:
//   kLayer  dx = r·(g − mean(g) − x̂·mean(g⊙x̂))
//   kRms    dx = r·(g − x̂·mean(g⊙x̂))
// Accumulate: dγ += Σ_rows dy⊙x̂;  dβ += Σ_rows dy.
//
// Metered per row of d (kNorm): layer 7d + 5 forward, 8d + 2 backward, 3d accumulate;
//                               rms   4d + 4 forward, 6d + 1 backward, 2d accumulate;
//                               layer without β d less forward and accumulate.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "longspan/base/choice.h"
#include "longspan/base/view.h"

namespace longspan {

enum class NormKind : std::uint8_t { kLayer, kRms };
constexpr Names<2> names_of(NormKind /*kind*/) { return {"model", "norm", {"layer", "rms"}}; }

struct NormFlops {
  std::uint64_t forward;
  std::uint64_t backward;
  std::uint64_t accumulate;
};
NormFlops norm_flops(NormKind kind, bool shifts, std::uint64_t rows, std::uint64_t d);

// `beta` is null for kRms, and where LayerNorm does not shift. `normalized` (x̂) and `inverse` (r, one per row) are what backward needs;
// both may be empty at inference. y may be x; x̂ may not be y.
void norm_forward(NormKind kind, float epsilon, ConstMatrix x, const float* gamma,
                  const float* beta, Matrix y, Matrix normalized, std::span<float> inverse);
// dx = …, or dx += … with `add` (the residual path: + rows·d FLOPs of kAdd). dx may be dy.
void norm_backward(NormKind kind, ConstMatrix normalized, std::span<const float> inverse,
                   const float* gamma, ConstMatrix dy, Matrix dx, bool add);
void norm_accumulate(NormKind kind, ConstMatrix normalized, ConstMatrix dy, float* dgamma,
                     float* dbeta);

}  // namespace longspan
