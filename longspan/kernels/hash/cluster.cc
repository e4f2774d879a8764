#include "longspan/kernels/hash/cluster.h"

#include <algorithm>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/hash/cluster.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#ifndef LONGSPAN_KERNELS_CLUSTER_CC_
#define LONGSPAN_KERNELS_CLUSTER_CC_
namespace longspan {
constexpr std::size_t kCodeBits = 64;
constexpr int kIndexBits = 24;  // a distance takes 7 more
}  // namespace longspan
#endif

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using DC = hn::CappedTag<std::uint64_t, 8>;
constexpr std::size_t kCodes = hn::MaxLanes(DC());

// The smaller of numbers below 2³².
HWY_INLINE hn::Vec<DC> smaller(hn::Vec<DC> a, hn::Vec<DC> b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Min(a, b);
#else
  const hn::Repartition<std::uint32_t, DC> half;  // one instruction where 64 bits take several
  return hn::BitCast(DC(), hn::Min(hn::BitCast(half, a), hn::BitCast(half, b)));
#endif
}

// The nearest centres of two vectors of codes: the chains of one hide the latency of the other.
HWY_INLINE void nearest_pair(const std::uint64_t* HWY_RESTRICT codes,
                             std::span<const std::uint64_t> centres,
                             std::uint64_t* HWY_RESTRICT index) {
  const DC d;
  const auto a = hn::LoadU(d, codes);
  const auto b = hn::LoadU(d, codes + kCodes);
  // Distance above, index below: one minimum finds the nearest and, of equals, the first.
  auto best_a = hn::Set(d, std::uint64_t{0xFFFFFFFFU});
  auto best_b = best_a;
  for (std::size_t c = 0; c < centres.size(); ++c) {
    const auto centre = hn::Set(d, centres[c]);
    const auto number = hn::Set(d, std::uint64_t{c});
    const auto key = [&](auto x) HWY_ATTR {
      const auto distance = hn::PopulationCount(hn::Xor(x, centre));
      return hn::Or(hn::ShiftLeft<kIndexBits>(distance), number);
    };
    best_a = smaller(best_a, key(a));
    best_b = smaller(best_b, key(b));
  }
  const auto mask = hn::Set(d, (std::uint64_t{1} << kIndexBits) - 1);
  hn::StoreU(hn::And(best_a, mask), d, index);
  hn::StoreU(hn::And(best_b, mask), d, index + kCodes);
}

// counts[bit] += bits of the code.
HWY_INLINE void count_bits(std::uint64_t code, std::int32_t* HWY_RESTRICT counts) {
  const hn::CappedTag<std::uint32_t, 16> du;
  const hn::RebindToSigned<decltype(du)> di;
  constexpr std::size_t kLanes = hn::MaxLanes(du);
  for (std::size_t bit = 0; bit < kCodeBits; bit += kLanes) {
    const auto word = hn::Set(du, static_cast<std::uint32_t>(code >> (bit / 32 * 32)));
    const auto mine = hn::Shl(hn::Set(du, 1U), hn::Iota(du, static_cast<std::uint32_t>(bit % 32)));
    const auto unset =
        hn::VecFromMask(di, hn::RebindMask(di, hn::Eq(hn::And(word, mine), hn::Zero(du))));
    const auto one = hn::Add(unset, hn::Set(di, 1));
    hn::StoreU(hn::Add(hn::LoadU(di, counts + bit), one), di, counts + bit);
  }
}

}  // namespace

void NearestCodes(std::span<const std::uint64_t> codes, std::span<const std::uint64_t> centres,
                  std::int32_t* assignment) {
  constexpr std::size_t kStep = 2 * kCodes;
  HWY_ALIGN std::uint64_t index[kStep];
  HWY_ALIGN std::uint64_t last[kStep] = {};
  for (std::size_t i = 0; i < codes.size(); i += kStep) {
    const std::size_t count = std::min(kStep, codes.size() - i);
    const std::uint64_t* from = codes.data() + i;
    if (count < kStep) from = std::copy_n(from, count, last) - count;
    nearest_pair(from, centres, index);
    for (std::size_t j = 0; j < count; ++j) {
      assignment[i + j] = static_cast<std::int32_t>(index[j]);
    }
  }
}

void Majority(std::span<const std::uint64_t> codes, const std::int32_t* assignment,
              std::span<std::uint64_t> centres, std::int32_t* counts) {
  std::int32_t* sizes = counts + centres.size() * kCodeBits;
  std::fill_n(counts, centres.size() * (kCodeBits + 1), 0);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto c = static_cast<std::size_t>(assignment[i]);
    count_bits(codes[i], counts + c * kCodeBits);
    ++sizes[c];
  }
  for (std::size_t c = 0; c < centres.size(); ++c) {
    if (sizes[c] == 0) continue;
    std::uint64_t centre = 0;
    for (std::size_t bit = 0; bit < kCodeBits; ++bit) {
      centre |= std::uint64_t{2 * counts[c * kCodeBits + bit] > sizes[c]} << bit;
    }
    centres[c] = centre;
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(NearestCodes);
HWY_EXPORT(Majority);

std::size_t majority_scratch(std::size_t clusters) { return clusters * (kCodeBits + 1); }

void nearest_codes(std::span<const std::uint64_t> codes, std::span<const std::uint64_t> centres,
                   std::int32_t* assignment) {
  HWY_DYNAMIC_DISPATCH(NearestCodes)(codes, centres, assignment);
}

void spaced_codes(std::span<const std::uint64_t> codes, std::span<std::uint64_t> centres) {
  for (std::size_t c = 0; c < centres.size(); ++c) {
    centres[c] = codes[c * codes.size() / centres.size()];
  }
}

void majority_codes(std::span<const std::uint64_t> codes, const std::int32_t* assignment,
                    std::span<std::uint64_t> centres, std::int32_t* counts) {
  HWY_DYNAMIC_DISPATCH(Majority)(codes, assignment, centres, counts);
}

}  // namespace longspan
#endif  // HWY_ONCE
