// What a layer does in one step: forward, the signal to its input, the signal to its parameters.
#pragma once

#include "longspan/base/meter.h"

namespace longspan {

struct Cost {
  Work forward;
  Work backward;
  Work update;

  Cost& operator+=(const Cost& more) {
    forward += more.forward;
    backward += more.backward;
    update += more.update;
    return *this;
  }
  friend Cost operator+(Cost a, const Cost& b) { return a += b; }
};

// Whether two counts agree in MACCs and in every kind of FLOP. Bytes are measured, not predicted.
inline bool same_arithmetic(const Work& a, const Work& b) {
  return a.maccs == b.maccs && a.other == b.other;
}

inline Work maccs(std::uint64_t count) {
  Work work;
  work.maccs = count;
  return work;
}
inline Work flops(Kind kind, std::uint64_t count) {
  Work work;
  work[kind] = count;
  return work;
}

}  // namespace longspan
