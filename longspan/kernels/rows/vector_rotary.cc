// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/vector_rotary.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include <hwy/highway.h>

#include <cmath>
#include <vector>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/pieces.h"
#include "longspan/kernels/rows/vector.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

// (a, b) → (a·c − b·s, a·s + b·c)
struct Rotated {
  V a;
  V b;
};
HWY_INLINE Rotated rotated(V a, V b, V c, V s) {
  return {hn::NegMulAdd(b, s, hn::Mul(a, c)), hn::MulAdd(a, s, hn::Mul(b, c))};
}

// Pairs (i, i + half) of one row. `sign` is −1 to rotate back.
void rotate_halves(const float* c, const float* s, float sign, float* x, size_t half) {
  const V direction = hn::Set(D(), sign);
  for_lanes(half, [&](auto io, size_t i) HWY_ATTR {
    const Rotated y = rotated(io.load(x + i), io.load(x + half + i), io.load(c + i),
                              hn::Mul(direction, io.load(s + i)));
    io.store(y.a, x + i);
    io.store(y.b, x + half + i);
  });
}

// Pairs (2i, 2i + 1) of one row.
void rotate_pairs(const float* c, const float* s, float sign, float* x, size_t half) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V direction = hn::Set(d, sign);
  size_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    V a;
    V b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    const Rotated y = rotated(a, b, hn::LoadU(d, c + i), hn::Mul(direction, hn::LoadU(d, s + i)));
    hn::StoreInterleaved2(y.a, y.b, d, x + 2 * i);
  }
  for (; i < half; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    x[2 * i] = a * c[i] - b * sign * s[i];
    x[2 * i + 1] = a * sign * s[i] + b * c[i];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {
HWY_EXPORT(rotate_halves);
HWY_EXPORT(rotate_pairs);
}  // namespace

void rotary_table(const Rotary& rotary, std::size_t positions, std::size_t d, float* cosines,
                  float* sines) {
  require(d % 2 == 0, "[rotary] d is {}; need an even one", d);
  std::vector<double> frequencies(d / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(static_cast<double>(rotary.base),
                              -2.0 * static_cast<double>(i) / static_cast<double>(d));
  }
  rotary_table(frequencies, 1.0, positions, cosines, sines);
}

void rotary_table(std::span<const double> frequencies, double amplitude, std::size_t positions,
                  float* cosines, float* sines) {
  const std::size_t half = frequencies.size();
  for (std::size_t i = 0; i < half; ++i) {
    for (std::size_t p = 0; p < positions; ++p) {
      const double angle = static_cast<double>(p) * frequencies[i];
      cosines[p * half + i] = static_cast<float>(amplitude * std::cos(angle));
      sines[p * half + i] = static_cast<float>(amplitude * std::sin(angle));
    }
  }
}

void rotate(const Rotary& rotary, ConstMatrix cosines, ConstMatrix sines, std::size_t first,
            Heads x, bool inverse) {
  require(x.d % 2 == 0 && cosines.cols == x.d / 2 && sines.cols == x.d / 2,
          "[rotary] tables are {} and {} wide for d = {}; need d/2", cosines.cols, sines.cols, x.d);
  require(first + x.n <= cosines.rows && first + x.n <= sines.rows,
          "[rotary] positions up to {}; tables hold {} and {}", first + x.n, cosines.rows,
          sines.rows);
  const std::size_t rows = x.batch * x.n * x.heads;
  const Called called([&] {
    Call call = row_call(Op::kRotary, {}, rows, x.d, Kind::kRotary, 3, 8);
    call.work.bytes_of(Kind::kRotary) += 4 * x.n * x.d;
    return call;
  });
  if (called.dry()) return;
  const float sign = inverse ? -1.0F : 1.0F;
  // Heads innermost: they lie side by side when they are columns of one matrix.
  detail::in_pieces(rows, detail::rows_per_piece(x.d), [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const std::size_t h = r % x.heads;
      const std::size_t n = r / x.heads % x.n;
      float* row = x.head(r / x.heads / x.n, h).row_data(n);
      const float* c = cosines.row_data(first + n);
      const float* s = sines.row_data(first + n);
      if (rotary.interleaved) {
        HWY_DYNAMIC_DISPATCH(rotate_pairs)(c, s, sign, row, x.d / 2);
      } else {
        HWY_DYNAMIC_DISPATCH(rotate_halves)(c, s, sign, row, x.d / 2);
      }
    }
  });
}

}  // namespace longspan
#endif  // HWY_ONCE
