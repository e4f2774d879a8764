#include "longspan/kernels/hash/hash.h"

#include <algorithm>

#include "longspan/kernels/tiled/tiled_attention.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/hash/hash.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/tiled/tiled_attention-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {

using DI = hn::RebindToSigned<DF>;

// bucket[lane] += weight·argmax([y; −y]) of the `half` projections y, one row each; the first of
// equals wins.
void add_argmax(const float* y, std::size_t half, std::size_t width, std::int32_t weight,
                std::int32_t* bucket) {
  const DF d;
  const DI di;
  const auto low = hn::Set(di, static_cast<std::int32_t>(half));
  for (std::size_t lane = 0; lane < width; lane += kVectorLanes) {
    auto best = hn::Set(d, -1.0F);
    auto index = hn::Zero(di);
    for (std::size_t j = 0; j < half; ++j) {
      const auto v = hn::LoadU(d, y + j * kPitch + lane);
      const auto size = hn::Abs(v);
      const auto better = hn::Gt(size, best);
      const auto negative = hn::RebindMask(di, hn::Lt(v, hn::Zero(d)));
      const auto here =
          hn::Add(hn::Set(di, static_cast<std::int32_t>(j)), hn::IfThenElseZero(negative, low));
      best = hn::IfThenElse(better, size, best);
      index = hn::IfThenElse(hn::RebindMask(di, better), here, index);
    }
    const auto sum = hn::Add(hn::LoadU(di, bucket + lane), hn::Mul(index, hn::Set(di, weight)));
    hn::StoreU(sum, di, bucket + lane);
  }
}

}  // namespace

void LshBuckets(ConstMatrix x, const LshCode& code, ConstMatrix rotations, std::int32_t* to,
                std::size_t stride, float* scratch) {
  float* xt = scratch;
  float* y = xt + x.cols * kPitch;
  HWY_ALIGN std::int32_t buckets[kQueryBlock];
  for (std::size_t first = 0; first < x.rows; first += kQueryBlock) {
    const std::size_t count = std::min(kQueryBlock, x.rows - first);
    const std::size_t width = tile_width(count);
    pack_queries(x.slice_rows(first, count), 1.0F, xt);
    const float* projection = rotations.data;
    for (std::size_t r = 0; r < code.rounds; ++r) {
      std::fill_n(buckets, kQueryBlock, 0);
      std::size_t weight = 1;
      for (std::size_t f = 0; f < code.factors.size() && code.factors[f] > 0; ++f) {
        const std::size_t half = code.factors[f] / 2;
        tile_gemm({projection, rotations.stride, true}, {xt, kPitch}, half, x.cols, width,
                  {y, kPitch});
        add_argmax(y, half, width, static_cast<std::int32_t>(weight), buckets);
        projection += half;
        weight *= code.factors[f];
      }
      std::copy_n(buckets, count, to + r * stride + first);
    }
  }
}

void SignBits(ConstMatrix x, ConstMatrix planes, std::uint64_t* to, float* scratch) {
  const std::size_t d = x.cols;
  float* xt = scratch;
  float* y = xt + (d + 1) * kPitch;
  for (std::size_t first = 0; first < x.rows; first += kQueryBlock) {
    const std::size_t count = std::min(kQueryBlock, x.rows - first);
    pack_queries(x.slice_rows(first, count), 1.0F, xt);
    std::fill_n(xt + d * kPitch, kPitch, -1.0F);
    tile_gemm({planes.data, planes.stride}, {xt, kPitch}, planes.rows, d + 1, tile_width(count),
              {y, kPitch});
    std::fill_n(to + first, count, std::uint64_t{0});
    for (std::size_t k = 0; k < planes.rows; ++k) {
      for (std::size_t i = 0; i < count; ++i) {
        to[first + i] |= std::uint64_t{y[k * kPitch + i] > 0.0F} << k;
      }
    }
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(LshBuckets);
HWY_EXPORT(SignBits);

std::size_t LshCode::buckets() const {
  std::size_t product = 1;
  for (const std::size_t f : factors) product *= std::max<std::size_t>(f, 1);
  return product;
}

std::size_t LshCode::projections() const {
  std::size_t sum = 0;
  for (const std::size_t f : factors) sum += f / 2;
  return sum;
}

std::size_t lsh_scratch(std::size_t d, const LshCode& code) {
  const std::size_t half = *std::max_element(code.factors.begin(), code.factors.end()) / 2;
  return (d + half) * tile_pitch(kQueryBlock);
}

std::size_t sign_scratch(std::size_t d, std::size_t bits) {
  return (d + 1 + bits) * tile_pitch(kQueryBlock);
}

void lsh_buckets(ConstMatrix x, const LshCode& code, ConstMatrix rotations, std::int32_t* to,
                 std::size_t stride, float* scratch) {
  HWY_DYNAMIC_DISPATCH(LshBuckets)(x, code, rotations, to, stride, scratch);
}

void sign_bits(ConstMatrix x, ConstMatrix planes, std::uint64_t* to, float* scratch) {
  HWY_DYNAMIC_DISPATCH(SignBits)(x, planes, to, scratch);
}

}  // namespace longspan
#endif  // HWY_ONCE
