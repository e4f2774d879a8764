#include "longspan/kernels/gemm/fma_peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "longspan/base/parallel.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/gemm/fma_peak.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// An FMA takes four or five cycles and two start in each, so ten chains hide the latency; twelve
// and their two operands fit sixteen registers.
constexpr std::uint64_t kChains = 12;

// a ← a·0.999 + 0.001 tends to 1 and so never meets a denormal. Each chain starts elsewhere, or the
// compiler would compute one for all; they have names, because an array of vectors is spilled.
float run_chains(std::uint64_t rounds) {
  const hn::ScalableTag<float> d;
  const auto m = hn::Set(d, 0.999F);
  const auto c = hn::Set(d, 0.001F);
  auto a0 = hn::Set(d, 0.0F);
  auto a1 = hn::Set(d, 1.0F);
  auto a2 = hn::Set(d, 2.0F);
  auto a3 = hn::Set(d, 3.0F);
  auto a4 = hn::Set(d, 4.0F);
  auto a5 = hn::Set(d, 5.0F);
  auto a6 = hn::Set(d, 6.0F);
  auto a7 = hn::Set(d, 7.0F);
  auto a8 = hn::Set(d, 8.0F);
  auto a9 = hn::Set(d, 9.0F);
  auto a10 = hn::Set(d, 10.0F);
  auto a11 = hn::Set(d, 11.0F);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, m, c);
    a1 = hn::MulAdd(a1, m, c);
    a2 = hn::MulAdd(a2, m, c);
    a3 = hn::MulAdd(a3, m, c);
    a4 = hn::MulAdd(a4, m, c);
    a5 = hn::MulAdd(a5, m, c);
    a6 = hn::MulAdd(a6, m, c);
    a7 = hn::MulAdd(a7, m, c);
    a8 = hn::MulAdd(a8, m, c);
    a9 = hn::MulAdd(a9, m, c);
    a10 = hn::MulAdd(a10, m, c);
    a11 = hn::MulAdd(a11, m, c);
  }
  a0 = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(a4, a5));
  a6 = hn::Add(hn::Add(hn::Add(a6, a7), hn::Add(a8, a9)), hn::Add(a10, a11));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(a0, a6)));
}

std::uint64_t flops_per_round() { return 2 * kChains * hn::Lanes(hn::ScalableTag<float>()); }

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(run_chains);
HWY_EXPORT(flops_per_round);
HWY_EXPORT(target_name);

namespace {

// Seconds that every thread takes for `rounds` rounds at once; NaN would mean that a chain broke.
double time_rounds(std::uint64_t rounds) {
  using Clock = std::chrono::steady_clock;
  std::atomic<float> sink = 0.0F;
  const auto begin = Clock::now();
  parallel_for(workers(), [&](std::size_t, std::size_t) {
    sink.store(HWY_DYNAMIC_DISPATCH(run_chains)(rounds), std::memory_order_relaxed);
  });
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return std::isfinite(sink.load()) ? seconds : std::nan("");
}

}  // namespace

double fma_peak(double seconds) {
  constexpr int kRuns = 25;  // short, so that some fall between the turns of other processes
  const std::uint64_t probe = 20'000;
  time_rounds(probe);  // wakes the threads
  const double rate = static_cast<double>(probe) / time_rounds(probe);
  const auto rounds = std::max(probe, static_cast<std::uint64_t>(rate * seconds / kRuns));
  double best = time_rounds(rounds);
  for (int run = 1; run < kRuns; ++run) best = std::min(best, time_rounds(rounds));
  const auto flops = static_cast<double>(HWY_DYNAMIC_DISPATCH(flops_per_round)());
  return flops * static_cast<double>(rounds) * thread_count() / best;
}

std::string_view instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace longspan
#endif  // HWY_ONCE
