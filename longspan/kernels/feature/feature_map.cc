#include "longspan/kernels/feature/feature_map.h"

#include "longspan/base/cost.h"

namespace longspan {

Work FeatureMap::projection_work(std::size_t d) const {
  Work work = flops(Kind::kMatmul, d);  // x' = scale·x
  if (projection.rows == 0) return work;
  if (!projection.hadamard) return work + maccs(std::uint64_t{projection.rows} * d);
  const std::uint64_t p = FeatureProjection::padded(d);
  const auto stages = static_cast<std::uint64_t>(std::bit_width(p) - 1);
  return work + flops(Kind::kFeature, projection.sign_rows(d) * p * stages + projection.rows);
}

Work FeatureMap::query_work(std::size_t d) const {
  const std::uint64_t m = features(d);
  switch (kind) {
    case FeatureKind::kElu:
      return flops(Kind::kFeature, 2 * m);  // power, sum with 1
    case FeatureKind::kRelu:
      return flops(Kind::kFeature, 2 * m);  // maximum, sum with ε
    case FeatureKind::kExp:
      return flops(Kind::kFeature, 4 * m + 2);  // sum with c, maximum, difference, power; logarithm
    case FeatureKind::kShifted:
      return flops(Kind::kFeature, 4 * m + 1) + maccs(d);  // maximum, difference, power, sum; norm
  }
  return {};
}

Work FeatureMap::key_work(std::size_t d) const {
  const std::uint64_t m = features(d);
  switch (kind) {
    case FeatureKind::kElu:
    case FeatureKind::kRelu:
      return query_work(d);
    case FeatureKind::kExp:  // differences from the norm and from c, maximum, power
      return flops(Kind::kFeature, (norm ? 4 : 3) * m) + maccs(norm ? d : 0);
    case FeatureKind::kShifted:
      return flops(Kind::kFeature, 3 * m) + maccs(d);
  }
  return {};
}

Work FeatureMap::derivative_work(std::size_t d, bool key) const {
  const std::uint64_t m = features(d);
  Work work = flops(Kind::kFeature, m);
  // The norm of a query cancels between numerator and denominator, unless an ε stands in the way.
  if (kind == FeatureKind::kShifted || (norm && key)) work += flops(Kind::kFeature, m) + maccs(d);
  if (mirrored) work += flops(Kind::kFeature, projection.rows);
  return work;
}

}  // namespace longspan
