// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/rows/norm.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "longspan/kernels/rows/norm.h"

#include <hwy/highway.h>

#include <cassert>
#include <cmath>

#include "longspan/base/call.h"
#include "longspan/base/error.h"
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/pieces.h"
#include "longspan/kernels/rows/vector.h"

HWY_BEFORE_NAMESPACE();
namespace longspan {
namespace HWY_NAMESPACE {

// Two passes: the mean first, then the squares of what is left, which loses no digits.
HWY_INLINE float row_mean(const float* x, size_t d) {
  const float sum = reduce_sum(
      d, [&](auto io, size_t i, V acc) HWY_ATTR { return hn::Add(acc, io.load(x + i)); });
  return sum / static_cast<float>(d);
}

HWY_INLINE float inverse_deviation(const float* x, size_t d, float mean, float epsilon) {
  const V shift = hn::Set(D(), mean);
  const float squares = reduce_sum(d, [&](auto io, size_t i, V acc) HWY_ATTR {
    const V centred = hn::Sub(io.load(x + i, mean), shift);
    return hn::MulAdd(centred, centred, acc);
  });
  return 1.0F / std::sqrt(squares / static_cast<float>(d) + epsilon);
}

// y = γ⊙x̂ + β, x̂ = (x − mean)·r; the mean of kRms is 0. β may be null.
void forward_row(const float* x, const float* gamma, const float* beta, float epsilon, bool centre,
                 float* y, float* normalized, float* inverse, size_t d) {
  const float mean = centre ? row_mean(x, d) : 0.0F;
  const float r = inverse_deviation(x, d, mean, epsilon);
  if (inverse != nullptr) *inverse = r;
  const V shift = hn::Set(D(), mean);
  const V scale = hn::Set(D(), r);
  for_lanes(d, [&](auto io, size_t i) HWY_ATTR {
    const V x_hat = hn::Mul(hn::Sub(io.load(x + i), shift), scale);
    if (normalized != nullptr) io.store(x_hat, normalized + i);
    const V offset = beta != nullptr ? io.load(beta + i) : hn::Zero(D());
    io.store(hn::MulAdd(io.load(gamma + i), x_hat, offset), y + i);
  });
}

// dx = r·(g − mean(g) − x̂·mean(g⊙x̂)), g = γ⊙dy; kRms has no mean(g).
void backward_row(const float* x_hat, const float* gamma, const float* dy, float r, bool centre,
                  bool add, float* dx, size_t d) {
  const auto size = static_cast<float>(d);
  const float sum =
      centre ? reduce_sum(
                   d, [&](auto io, size_t i, V acc)
                          HWY_ATTR { return hn::MulAdd(io.load(gamma + i), io.load(dy + i), acc); })
             : 0.0F;
  const float dot = reduce_sum(d, [&](auto io, size_t i, V acc) HWY_ATTR {
    const V g = hn::Mul(io.load(gamma + i), io.load(dy + i));
    return hn::MulAdd(g, io.load(x_hat + i), acc);
  });
  const V mean_g = hn::Set(D(), sum / size);
  const V mean_gx = hn::Set(D(), dot / size);
  const V scale = hn::Set(D(), r);
  for_lanes(d, [&](auto io, size_t i) HWY_ATTR {
    const V g = hn::Sub(hn::Mul(io.load(gamma + i), io.load(dy + i)), mean_g);
    const V projected = hn::NegMulAdd(io.load(x_hat + i), mean_gx, g);
    const V before = add ? io.load(dx + i) : hn::Zero(D());
    io.store(hn::MulAdd(scale, projected, before), dx + i);
  });
}

// dγ += Σ_rows dy⊙x̂, dβ += Σ_rows dy
void accumulate_columns(ConstMatrix x_hat, ConstMatrix dy, float* dgamma, float* dbeta) {
  add_down(dy.rows, dy.cols, dgamma, [&](auto io, size_t i, size_t j) HWY_ATTR {
    return hn::Mul(io.load(dy.row_data(i) + j), io.load(x_hat.row_data(i) + j));
  });
  if (dbeta == nullptr) return;
  add_down(dy.rows, dy.cols, dbeta,
           [&](auto io, size_t i, size_t j) HWY_ATTR { return io.load(dy.row_data(i) + j); });
}

}  // namespace HWY_NAMESPACE
}  // namespace longspan
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {
namespace {

HWY_EXPORT(forward_row);
HWY_EXPORT(backward_row);
HWY_EXPORT(accumulate_columns);

void require_same(const char* who, ConstMatrix a, ConstMatrix b) {
  require(a.rows == b.rows && a.cols == b.cols, "[norm] {} is {}x{}; need {}x{}", who, b.rows,
          b.cols, a.rows, a.cols);
}

}  // namespace

// Forward: mean (d + 1), centre d, squares and their mean 2d + 1, ε, root, reciprocal 3, ·r d, γ d,
// β d. Backward: g d, mean(g) d + 1, g⊙x̂ and its mean 2d + 1, two differences and a product 3d, ·r
// d. Accumulate: product and sum 2d, sum d. kRms has neither mean, nor centring, nor β.
NormFlops norm_flops(NormKind kind, bool shifts, std::uint64_t rows, std::uint64_t d) {
  const std::uint64_t shift = shifts ? d : 0;
  if (kind == NormKind::kLayer) {
    return {rows * (6 * d + 5 + shift), rows * (8 * d + 2), rows * (2 * d + shift)};
  }
  return {rows * (4 * d + 4), rows * (6 * d + 1), rows * 2 * d};
}

void norm_forward(NormKind kind, float epsilon, ConstMatrix x, const float* gamma,
                  const float* beta, Matrix y, Matrix normalized, std::span<float> inverse) {
  const bool centre = kind == NormKind::kLayer;
  const bool keep = normalized.data != nullptr;
  require_same("y", x, y);
  if (keep) require_same("normalized", x, normalized);
  require(inverse.empty() || inverse.size() == x.rows, "[norm] {} inverses; need none or {}",
          inverse.size(), x.rows);
  assert(gamma != nullptr && (centre || beta == nullptr));
  const Called called([&] {
    return Call{
        .op = keep ? Op::kNormSaved : Op::kNorm,
        .variant = name_of(kind),
        .rows = x.rows,
        .cols = x.cols,
        .work = flops(
            Kind::kNorm, norm_flops(kind, beta != nullptr, x.rows, x.cols).forward,
            4 * ((keep ? 3 : 2) * x.size() + inverse.size() + (beta != nullptr ? 2 : 1) * x.cols))};
  });
  if (called.dry()) return;
  // Rows without columns have nothing to do.
  detail::in_pieces(x.cols == 0 ? 0 : x.rows, detail::rows_per_piece(x.cols),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t i = begin; i < end; ++i) {
                        HWY_DYNAMIC_DISPATCH(forward_row)
                        (x.row_data(i), gamma, beta, epsilon, centre, y.row_data(i),
                         keep ? normalized.row_data(i) : nullptr,
                         inverse.empty() ? nullptr : &inverse[i], x.cols);
                      }
                    });
}

void norm_backward(NormKind kind, ConstMatrix normalized, std::span<const float> inverse,
                   const float* gamma, ConstMatrix dy, Matrix dx, bool add) {
  require_same("dy", normalized, dy);
  require_same("dx", normalized, dx);
  require(inverse.size() == dy.rows, "[norm] {} inverses; need {}", inverse.size(), dy.rows);
  const Called called([&] {
    Work work = flops(Kind::kNorm, norm_flops(kind, false, dy.rows, dy.cols).backward,
                      4 * (3 * dy.size() + dy.rows + dy.cols));
    if (add) work += flops(Kind::kAdd, dy.size(), 4 * dy.size());
    return Call{.op = Op::kNormBackward,
                .variant = name_of(kind),
                .rows = dy.rows,
                .cols = dy.cols,
                .work = work};
  });
  if (called.dry()) return;
  detail::in_pieces(dy.cols == 0 ? 0 : dy.rows, detail::rows_per_piece(dy.cols),
                    [&](std::size_t begin, std::size_t end) {
                      for (std::size_t i = begin; i < end; ++i) {
                        HWY_DYNAMIC_DISPATCH(backward_row)
                        (normalized.row_data(i), gamma, dy.row_data(i), inverse[i],
                         kind == NormKind::kLayer, add, dx.row_data(i), dy.cols);
                      }
                    });
}

void norm_accumulate(NormKind kind, ConstMatrix normalized, ConstMatrix dy, float* dgamma,
                     float* dbeta) {
  const bool shifts = dbeta != nullptr;
  require_same("dy", normalized, dy);
  assert(dgamma != nullptr && (kind == NormKind::kLayer || !shifts));
  const Called called([&] {
    return Call{.op = Op::kNormUpdate,
                .variant = name_of(kind),
                .rows = dy.rows,
                .cols = dy.cols,
                .work = flops(Kind::kNorm, norm_flops(kind, shifts, dy.rows, dy.cols).accumulate,
                              4 * (2 * dy.size() + 2 * (shifts ? 2 : 1) * dy.cols))};
  });
  if (called.dry()) return;
  const std::size_t d = dy.cols;
  detail::in_row_sums(
      dy.rows, d, 2 * d,
      [&](std::size_t begin, std::size_t end, float* partial) {
        HWY_DYNAMIC_DISPATCH(accumulate_columns)
        (normalized.slice_rows(begin, end - begin), dy.slice_rows(begin, end - begin), partial,
         shifts ? partial + d : nullptr);
      },
      [&](const float* partial) {
        add_row({partial, d}, dgamma);
        if (shifts) add_row({partial + d, d}, dbeta);
      });
}

}  // namespace longspan
#endif  // HWY_ONCE
