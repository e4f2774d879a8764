#include "longspan/kernels/fourier/fourier_plan.h"

#include <cmath>
#include <complex>
#include <map>
#include <mutex>
#include <numbers>

#include "longspan/base/error.h"

namespace longspan {

namespace {

using Complex = std::complex<double>;

// e^{−2πi·turns/of}, with the angle reduced before it is rounded.
Complex unit(std::size_t turns, std::size_t of) {
  const double angle =
      2.0 * std::numbers::pi * static_cast<double>(turns % of) / static_cast<double>(of);
  return {std::cos(angle), -std::sin(angle)};
}

void append(Complex z, std::vector<float>& to) {
  to.push_back(static_cast<float>(z.real()));
  to.push_back(static_cast<float>(z.imag()));
}

std::size_t without(std::size_t length, std::size_t factor) {
  while (length % factor == 0) length /= factor;
  return length;
}

// The least length ≥ 2N − 1 that has no factors but 2, 3 and 5.
std::size_t convolution_of(std::size_t length) {
  std::size_t m = 2 * length - 1;
  while (without(without(without(m, 2), 3), 5) != 1) ++m;
  return m;
}

std::uint64_t butterfly_flops(std::size_t radix) {
  if (radix == 2) return 4;
  if (radix == 4) return 16;
  const std::uint64_t h = (radix - 1) / 2;
  return 8 * h * h + 8 * h;
}

std::vector<FourierStage> stages_of(std::size_t length) {
  const FourierFactors factors(length);
  std::vector<FourierStage> stages;
  std::size_t apart = 1;
  for (std::size_t i = 0; i < factors.stages; ++i) {
    FourierStage stage;
    const std::size_t r = stage.radix = factors.radices[i];
    stage.apart = apart;
    stage.blocks = length / apart / r;
    for (std::size_t p = 0; p < stage.blocks; ++p) {
      for (std::size_t k = 1; k < r; ++k) append(unit(p * k, length / apart), stage.rotations);
    }
    for (std::size_t j = 0; r % 2 == 1 && j < r; ++j) {
      const Complex z = unit(j, r);
      stage.cosines.push_back(static_cast<float>(z.real()));
      stage.sines.push_back(static_cast<float>(-z.imag()));
    }
    apart *= r;
    stages.push_back(std::move(stage));
  }
  return stages;
}

// The transform of x by its stages, in double precision.
std::vector<Complex> transformed(std::span<const FourierStage> stages, std::vector<Complex> x) {
  std::vector<Complex> to(x.size());
  for (const FourierStage& s : stages) {
    for (std::size_t i = 0; i < x.size() / s.radix; ++i) {
      const std::size_t q = i % s.apart;
      const std::size_t p = i / s.apart;
      for (std::size_t k = 0; k < s.radix; ++k) {
        Complex sum = 0.0;
        for (std::size_t j = 0; j < s.radix; ++j) {
          sum += unit(j * k, s.radix) * x[q + s.apart * (p + s.blocks * j)];
        }
        to[q + s.apart * (s.radix * p + k)] = sum * unit(p * k, x.size() / s.apart);
      }
    }
    x.swap(to);
  }
  return x;
}

}  // namespace

FourierFactors::FourierFactors(std::size_t length) {
  require(length > 0, "[fourier] a transform of no elements; need one at least");
  std::size_t rest = length;
  const auto take = [&](std::size_t radix) {
    for (; rest % radix == 0; rest /= radix) radices[stages++] = radix;
  };
  take(4);
  take(2);
  for (std::size_t radix = 3; radix <= kLargestRadix; radix += 2) take(radix);
  if (rest > 1) convolution = convolution_of(length);
}

std::uint64_t fourier_flops(std::size_t length) {
  const FourierFactors factors(length);
  const std::uint64_t n = length;
  if (factors.convolution > 0) {
    return 2 * fourier_flops(factors.convolution) + 6 * factors.convolution + 12 * n;
  }
  std::uint64_t flops = 0;
  std::uint64_t apart = 1;
  for (std::size_t i = 0; i < factors.stages; ++i) {
    const std::uint64_t r = factors.radices[i];
    flops += n / r * butterfly_flops(r) + 6 * (r - 1) * (n / r - apart);
    apart *= r;
  }
  return flops;
}

FourierPlan::FourierPlan(std::size_t length) : length_(length), stages_(stages_of(rows(length))) {
  const std::size_t m = FourierFactors(length).convolution;
  if (m == 0) return;
  std::vector<Complex> conjugate(m);
  for (std::size_t j = 0; j < length; ++j) {
    const Complex c = unit(j * j, 2 * length);
    append(c, chirp_);
    conjugate[j] = conjugate[(m - j) % m] = std::conj(c) / static_cast<double>(m);
  }
  for (const Complex z : transformed(stages_, std::move(conjugate))) append(z, spectrum_);
}

std::size_t FourierPlan::rows(std::size_t length) {
  const std::size_t m = FourierFactors(length).convolution;
  return m > 0 ? m : length;
}

const FourierPlan& fourier_plan(std::size_t length) {
  static std::mutex mutex;
  static std::map<std::size_t, FourierPlan> plans;  // whose elements stay where they are
  const std::lock_guard lock(mutex);
  return plans.try_emplace(length, length).first->second;
}

}  // namespace longspan
