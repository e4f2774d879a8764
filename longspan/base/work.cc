#include "longspan/base/work.h"

#include <numeric>

namespace longspan {

std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, kKinds> kNames = {
      "matmul", "softmax",   "norm",    "activation", "add",  "dropout", "gather",
      "rotary", "optimizer", "feature", "hash",       "sort", "fourier"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint64_t Work::other_flops() const {
  return std::accumulate(other.begin(), other.end(), std::uint64_t{0});
}
std::uint64_t Work::total_bytes() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

Work& Work::operator+=(const Work& more) {
  maccs += more.maccs;
  for (std::size_t i = 0; i < kKinds; ++i) {
    other[i] += more.other[i];
    bytes[i] += more.bytes[i];
  }
  return *this;
}

Work operator*(std::uint64_t count, Work work) {
  work.maccs *= count;
  for (auto& f : work.other) f *= count;
  for (auto& b : work.bytes) b *= count;
  return work;
}

}  // namespace longspan
