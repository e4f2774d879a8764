// The numbers that a field of a record may be.
#pragma once

namespace longspan {

struct FieldRange {
  double least = 0.0;
  double most = 0.0;

  // NaN is in no range.
  constexpr bool contains(double value) const { return value >= least && value <= most; }
};

}  // namespace longspan
