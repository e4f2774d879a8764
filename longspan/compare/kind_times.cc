#include "longspan/compare/kind_times.h"

#include <algorithm>
#include <array>
#include <string>

namespace longspan {

namespace {

// Exponentials, comparisons and table look-ups reach about an eighth of the peak of multiply-adds.
constexpr double kOtherSlower = 8.0;

struct Share {
  double seconds = 0.0;
  std::uint64_t flops = 0;
  std::uint64_t bytes = 0;
};

std::uint64_t flops_of(const Work& work, std::size_t kind) {
  const bool matmul = kind == static_cast<std::size_t>(Kind::kMatmul);
  return work.other[kind] + (matmul ? 2 * work.maccs : 0);
}

double alone(const Work& work, std::size_t kind, const CompareRoofline& roofline) {
  const bool matmul = kind == static_cast<std::size_t>(Kind::kMatmul);
  const double products = matmul ? 2.0 * static_cast<double>(work.maccs) : 0.0;
  const double flops = products + kOtherSlower * static_cast<double>(work.other[kind]);
  return std::max(flops / roofline.peak_flops,
                  static_cast<double>(work.bytes[kind]) / roofline.bandwidth);
}

}  // namespace

std::vector<KindTime> kind_times(std::span<const Meter::Lap> laps, const CompareRoofline& roofline,
                                 double seconds) {
  std::array<Share, kKinds> shares;
  double total = 0.0;
  for (const Meter::Lap& lap : laps) {
    std::array<double, kKinds> weight{};
    double sum = 0.0;
    for (std::size_t k = 0; k < kKinds; ++k) sum += weight[k] = alone(lap.work, k, roofline);
    for (std::size_t k = 0; k < kKinds; ++k) {
      if (sum > 0.0) shares[k].seconds += lap.seconds * weight[k] / sum;
      shares[k].flops += flops_of(lap.work, k);
      shares[k].bytes += lap.work.bytes[k];
    }
    if (sum > 0.0) total += lap.seconds;
  }
  std::vector<KindTime> kinds;
  for (std::size_t k = 0; k < kKinds; ++k) {
    const Share& s = shares[k];
    if (s.flops == 0 && s.bytes == 0) continue;
    const bool compute = static_cast<double>(s.flops) * roofline.bandwidth >=
                         static_cast<double>(s.bytes) * roofline.peak_flops;
    kinds.push_back({std::string(name_of(static_cast<Kind>(k))),
                     total > 0.0 ? s.seconds * seconds / total : 0.0, s.flops, s.bytes,
                     compute ? "compute" : "memory"});
  }
  std::ranges::stable_sort(kinds, std::greater(), &KindTime::seconds);
  return kinds;
}

}  // namespace longspan
