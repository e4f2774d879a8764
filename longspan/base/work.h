// Work: what a call does, in multiply-accumulates, other operations by kind, and bytes.
//
// 1 MACC = one multiply-accumulate = 2 FLOPs; every other mathematical operation = 1 FLOP.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace longspan {

// What kind of work the operations that are not MACCs belong to.
enum class Kind : std::uint8_t {
  kMatmul,      // bias additions, scaling of operands
  kSoftmax,     // maximum, subtraction, exponential, sum, division; and their derivative
  kNorm,        // LayerNorm, RMSNorm
  kActivation,  // ReLU, GELU, SiLU and their derivatives
  kAdd,         // residual and position additions, sums of gradients
  kDropout,     //
  kGather,      // table look-ups and scatters
  kRotary,      //
  kOptimizer,   //
  kFeature,     // feature maps: their exponentials, maxima and scaling; and their derivative
  kHash,        // comparisons and bit counts that decide a bucket or a cluster
  kSort,        // ordering by bucket, choosing the largest
  kFourier,     // butterflies and rotations of Fourier transforms
};
inline constexpr std::size_t kKinds = 13;
std::string_view name_of(Kind kind);

struct Work {
  std::uint64_t maccs = 0;
  std::array<std::uint64_t, kKinds> other{};  // FLOPs that are not MACCs, by kind
  std::array<std::uint64_t, kKinds> bytes{};  // operands read and results written, by kind

  std::uint64_t other_flops() const;
  std::uint64_t flops() const { return 2 * maccs + other_flops(); }
  std::uint64_t total_bytes() const;
  std::uint64_t& operator[](Kind kind) { return other[static_cast<std::size_t>(kind)]; }
  std::uint64_t operator[](Kind kind) const { return other[static_cast<std::size_t>(kind)]; }
  std::uint64_t& bytes_of(Kind kind) { return bytes[static_cast<std::size_t>(kind)]; }
  Work& operator+=(const Work& more);
  friend Work operator+(Work a, const Work& b) { return a += b; }
  friend Work operator*(std::uint64_t count, Work work);
  bool operator==(const Work&) const = default;
};

inline Work maccs(std::uint64_t count) {
  Work work;
  work.maccs = count;
  return work;
}
inline Work flops(Kind kind, std::uint64_t count, std::uint64_t bytes = 0) {
  Work work;
  work[kind] = count;
  work.bytes_of(kind) = bytes;
  return work;
}
// A product [m, k]·[k, n], and a bias that it adds: as their kernels report them.
inline Work product_work(std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  Work work = maccs(m * n * k);
  work.bytes_of(Kind::kMatmul) = 4 * (m * k + k * n + m * n);
  return work;
}
inline Work bias_work(std::uint64_t rows, std::uint64_t width) {
  return flops(Kind::kMatmul, rows * width, 4 * width);
}
// Whether two counts agree in MACCs and in every kind of FLOP, whatever their bytes.
inline bool same_arithmetic(const Work& a, const Work& b) {
  return a.maccs == b.maccs && a.other == b.other;
}

}  // namespace longspan
