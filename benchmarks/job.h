// What a worker measures: a prepared piece of work, and numbers that every peer has too.
#pragma once

#include <cstdint>
#include <vector>

#include "longspan/base/work.h"

namespace longspan::bench {

// A prepared job: does the work once.
class Job {
 public:
  virtual ~Job() = default;
  virtual void run() = 0;
  // Some elements of the result, for comparison with the peers'.
  virtual std::vector<float> probe() const = 0;
  // The operations that it is predicted to need.
  virtual Work work() const = 0;
};

// Uniform in [−2, 2): a hash of the flat index, the same in every peer.
inline float value(std::uint32_t seed, std::uint32_t i) {
  std::uint32_t u = i * 2654435761U + seed * 374761393U;
  u = (u ^ (u >> 15U)) * 2246822519U;
  u ^= u >> 13U;
  return static_cast<float>(u >> 8U) * 0x1p-22F - 2.0F;
}

}  // namespace longspan::bench
