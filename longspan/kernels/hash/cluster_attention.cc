#include "longspan/kernels/hash/cluster_attention.h"

#include <algorithm>
#include <cmath>

#include "longspan/kernels/tiled/tiled_attention.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "longspan/kernels/hash/cluster_attention.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "longspan/kernels/loops-inl.h"
#include "longspan/kernels/tiled/tiled_attention-inl.h"
// clang-format on

#ifndef LONGSPAN_KERNELS_CLUSTER_ATTENTION_CC_
#define LONGSPAN_KERNELS_CLUSTER_ATTENTION_CC_
namespace longspan {

// The parts of the scratch. Rows are tile_pitch apart, lanes lie in tile_pitch(kQueryBlock).
struct ClusterScratch {
  float *k, *v, *weight, *bottom, *q, *qt, *s, *sum, *o;  // forward
  float *rows, *dy, *dyt, *ds, *dqt, *dk, *dv, *slope;    // backward
  std::size_t forward_floats, total;

  ClusterScratch(float* memory, std::size_t d, std::size_t e, std::size_t keys) {
    constexpr std::size_t kWidth = tile_pitch(kQueryBlock);
    std::size_t at = 0;
    auto take = [&](std::size_t floats) {
      float* part = memory == nullptr ? nullptr : memory + at;
      at += tile_width(floats);
      return part;
    };
    k = take(keys * tile_pitch(d));
    v = take(keys * tile_pitch(e));
    weight = take(keys);
    bottom = take(tile_pitch(e));
    q = take(kQueryBlock * tile_pitch(d));
    qt = take(d * kWidth);
    s = take(keys * kWidth);
    sum = take(kWidth);
    o = take(e * kWidth);
    rows = take(kQueryBlock * std::max(tile_pitch(d), tile_pitch(e)));
    forward_floats = at;
    dy = take(kQueryBlock * tile_pitch(e));
    dyt = take(e * kWidth);
    ds = take(keys * kWidth);
    dqt = take(d * kWidth);
    dk = take(keys * tile_pitch(d));
    dv = take(keys * tile_pitch(e));
    slope = take(kWidth);
    total = at;
  }
};

}  // namespace longspan
#endif

HWY_BEFORE_NAMESPACE();
namespace longspan::HWY_NAMESPACE {
namespace {

void gather(ConstMatrix x, std::span<const std::int32_t> rows, float* to) {
  const std::size_t pitch = tile_pitch(x.cols);
  for (std::size_t i = 0; i < rows.size(); ++i, to += pitch) {
    std::memcpy(to, x.row_data(static_cast<std::size_t>(rows[i])), x.cols * sizeof(float));
    std::fill(to + x.cols, to + tile_width(x.cols), 0.0F);
  }
}

// y += a·x.
void add_scaled(float a, const float* x, std::size_t n, float* y) {
  const V factor = hn::Set(D(), a);
  for_lanes(n, [&](auto io, std::size_t i) HWY_ATTR {
    io.store(hn::MulAdd(factor, io.load(x + i), io.load(y + i)), y + i);
  });
}

float dot(const float* a, const float* b, std::size_t n) {
  return reduce_sum(n, [&](auto io, std::size_t i, V sum)
                           HWY_ATTR { return hn::MulAdd(io.load(a + i), io.load(b + i), sum); });
}

// Whether m̂ cannot be: it is at most 1, and at least |T|/n, for no other key has a larger weight.
// Scores so large that they round by more than 1 miss L, which was found by adding up in another
// order.
bool misses_level(float mass, const ClusterTask& t) {
  const auto keys = static_cast<float>(t.keys.size());
  return mass > 1.5F || 2.0F * mass * static_cast<float>(t.k.rows) < keys;
}

// A without L: the softmax over T itself. Returns m̂.
HWY_NOINLINE float weigh_alone(const ClusterTask& t, const ClusterScratch& f) {
  const std::size_t d = t.q.cols;
  float top = -kMostScore;
  for (std::size_t l = 0; l < t.keys.size(); ++l) {
    const float s = dot(t.centroid.data(), f.k + l * tile_pitch(d), d) * t.scale * kLog2E;
    f.weight[l] = std::clamp(s, -kMostScore, kMostScore);
    top = std::max(top, f.weight[l]);
  }
  float sum = 0.0F;
  for (std::size_t l = 0; l < t.keys.size(); ++l) {
    f.weight[l] = std::exp2(f.weight[l] - top);
    sum += f.weight[l];
  }
  for (std::size_t l = 0; l < t.keys.size(); ++l) f.weight[l] /= sum;
  return 1.0F;
}

// Gathers T; A, m̂ and b. Returns m̂.
float prepare(const ClusterTask& t, const ClusterScratch& f) {
  const std::size_t d = t.q.cols;
  const std::size_t e = t.v.cols;
  gather(t.k, t.keys, f.k);
  gather(t.v, t.keys, f.v);
  std::fill_n(f.bottom, e, 0.0F);
  std::fill_n(f.weight, t.keys.size(), 0.0F);
  if (!t.bottom) return 1.0F;
  std::copy_n(t.value.data(), e, f.bottom);
  float mass = 0.0F;
  for (std::size_t l = 0; l < t.keys.size(); ++l) {
    const float s = dot(t.centroid.data(), f.k + l * tile_pitch(d), d);
    f.weight[l] = std::exp2(s * t.scale * kLog2E - t.level);
    mass += f.weight[l];
  }
  if (misses_level(mass, t)) mass = weigh_alone(t, f);
  for (std::size_t l = 0; l < t.keys.size(); ++l) {
    add_scaled(-f.weight[l], f.v + l * tile_pitch(e), e, f.bottom);
  }
  return mass;
}

// S of a block of members, keys in the rows; hidden where a key is later.
void block_scores(const ClusterTask& t, std::span<const std::int32_t> members,
                  const ClusterScratch& f) {
  const std::size_t d = t.q.cols;
  gather(t.q, members, f.q);
  pack_queries(ConstMatrix(f.q, members.size(), d, tile_pitch(d)), t.scale * kLog2E, f.qt);
  tile_gemm({f.k, tile_pitch(d)}, {f.qt, kPitch}, t.keys.size(), d, tile_width(members.size()),
            {f.s, kPitch});
  if (t.bottom) return;
  for (std::size_t l = 0; l < t.keys.size(); ++l) {
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto last = static_cast<std::int64_t>(members[i]) +
                        static_cast<std::int64_t>(t.k.rows) - static_cast<std::int64_t>(t.q.rows);
      if (t.keys[l] > last) f.s[l * kPitch + i] = kMinusInfinity;
    }
  }
}

// P of one vector of members, and what its rows are to be multiplied by.
HWY_INLINE void block_softmax(std::size_t keys, float mass, float* HWY_RESTRICT s,
                              float* HWY_RESTRICT factor) {
  const DF d;
  VF top = hn::Set(d, std::numeric_limits<float>::lowest());
  for (std::size_t l = 0; l < keys; ++l) top = hn::Max(top, hn::LoadU(d, s + l * kPitch));
  if (overflows(top)) top = limit_scores(s, keys, top);
  VF sum = hn::Zero(d);
  for (std::size_t l = 0; l < keys; ++l) {
    const VF p = exp2_nonpositive(d, hn::Sub(hn::LoadU(d, s + l * kPitch), top));
    sum = hn::Add(sum, p);
    hn::StoreU(p, d, s + l * kPitch);
  }
  const auto none = hn::Eq(sum, hn::Zero(d));
  hn::StoreU(hn::IfThenZeroElse(none, hn::Div(hn::Set(d, mass), sum)), d, factor);
}

void forward_block(const ClusterTask& t, std::span<const std::int32_t> members, float mass,
                   const ClusterScratch& f, Matrix y) {
  const DF d;
  const std::size_t e = t.v.cols;
  const std::size_t width = tile_width(members.size());
  block_scores(t, members, f);
  for (std::size_t lane = 0; lane < width; lane += kVectorLanes) {
    block_softmax(t.keys.size(), mass, f.s + lane, f.sum + lane);
  }
  tile_gemm({f.v, tile_pitch(e), true}, {f.s, kPitch}, e, t.keys.size(), width, {f.o, kPitch});
  for (std::size_t c = 0; c < e; ++c) {
    const VF b = hn::Set(d, f.bottom[c]);
    for (std::size_t lane = 0; lane < width; lane += kVectorLanes) {
      float* o = f.o + c * kPitch + lane;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, o), hn::LoadU(d, f.sum + lane), b), d, o);
    }
  }
  transpose<false>(f.o, kPitch, e, members.size(), 1.0F, f.rows, tile_pitch(e));
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::copy_n(f.rows + i * tile_pitch(e), e, y.row_data(static_cast<std::size_t>(members[i])));
  }
}

// P and dP of one vector of members become m̂·P and s·dS; slope = r.
HWY_INLINE void block_gradient(std::size_t keys, float mass, float scale, const float* factor,
                               float* HWY_RESTRICT p, float* HWY_RESTRICT ds,
                               float* HWY_RESTRICT slope) {
  const DF d;
  const VF share = hn::LoadU(d, factor);  // m̂/Σ
  VF r = hn::Zero(d);
  for (std::size_t l = 0; l < keys; ++l) {
    const VF weight = hn::Mul(hn::LoadU(d, p + l * kPitch), share);
    hn::StoreU(weight, d, p + l * kPitch);
    r = hn::MulAdd(weight, hn::LoadU(d, ds + l * kPitch), r);
  }
  r = hn::Mul(r, hn::Set(d, mass > 0.0F ? 1.0F / mass : 0.0F));
  hn::StoreU(r, d, slope);
  const VF s = hn::Set(d, scale);
  for (std::size_t l = 0; l < keys; ++l) {
    const VF change = hn::Sub(hn::LoadU(d, ds + l * kPitch), r);
    hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, p + l * kPitch), change), s), d, ds + l * kPitch);
  }
}

// The members' dq and their parts of dk, dv and db; returns Σ r.
float backward_block(const ClusterTask& t, const ClusterGradient& gradient,
                     std::span<const std::int32_t> members, float mass, const ClusterScratch& f) {
  const std::size_t d = t.q.cols;
  const std::size_t e = t.v.cols;
  const std::size_t keys = t.keys.size();
  const std::size_t width = tile_width(members.size());
  block_scores(t, members, f);
  gather(gradient.dy, members, f.dy);
  pack_queries(ConstMatrix(f.dy, members.size(), e, tile_pitch(e)), 1.0F, f.dyt);
  tile_gemm({f.v, tile_pitch(e)}, {f.dyt, kPitch}, keys, e, width, {f.ds, kPitch});
  for (std::size_t lane = 0; lane < width; lane += kVectorLanes) {
    block_softmax(keys, mass, f.s + lane, f.sum + lane);
    block_gradient(keys, mass, t.scale, f.sum + lane, f.s + lane, f.ds + lane, f.slope + lane);
  }
  tile_gemm({f.s, kPitch}, {f.dy, tile_pitch(e)}, keys, members.size(), tile_width(e),
            {f.dv, tile_pitch(e), Start::kAdd});
  tile_gemm({f.ds, kPitch}, {f.q, tile_pitch(d)}, keys, members.size(), tile_width(d),
            {f.dk, tile_pitch(d), Start::kAdd});
  tile_gemm({f.k, tile_pitch(d), true}, {f.ds, kPitch}, d, keys, width, {f.dqt, kPitch});
  transpose<false>(f.dqt, kPitch, d, members.size(), 1.0F, f.rows, tile_pitch(d));
  float sum = 0.0F;
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::copy_n(f.rows + i * tile_pitch(d), d,
                gradient.dq.row_data(static_cast<std::size_t>(members[i])));
    add_scaled(1.0F, f.dy + i * tile_pitch(e), e, gradient.dvalue.data());
    sum += f.slope[i];
  }
  return sum;
}

// The centroid's own part: g, D, and what T gives to c and takes from it.
void add_centroid(const ClusterTask& t, const ClusterGradient& gradient, float dmass,
                  const ClusterScratch& f) {
  const std::size_t d = t.q.cols;
  const std::size_t e = t.v.cols;
  const float* db = gradient.dvalue.data();
  float delta = dot(db, t.value.data(), e);
  for (std::size_t l = 0; l < t.keys.size(); ++l) {
    const float* key = f.k + l * tile_pitch(d);
    const float* value = f.v + l * tile_pitch(e);
    const float pull = f.weight[l] * (dmass - dot(db, value, e));
    delta += pull;
    add_scaled(t.scale * pull, t.centroid.data(), d, f.dk + l * tile_pitch(d));
    add_scaled(t.scale * pull, key, d, gradient.dcentroid.data());
    add_scaled(-f.weight[l], db, e, f.dv + l * tile_pitch(e));
  }
  *gradient.delta = delta;
}

template <class Use>
HWY_INLINE void for_each_block(const ClusterTask& t, Use use) {
  for (std::size_t first = 0; first < t.members.size(); first += kQueryBlock) {
    use(t.members.subspan(first, std::min(kQueryBlock, t.members.size() - first)));
  }
}

}  // namespace

void ClusterForward(const ClusterTask& t, Matrix y, float* scratch) {
  const ClusterScratch f(scratch, t.q.cols, t.v.cols, t.keys.size());
  const float mass = prepare(t, f);
  for_each_block(t, [&](auto members) HWY_ATTR { forward_block(t, members, mass, f, y); });
}

void ClusterBackward(const ClusterTask& t, const ClusterGradient& gradient, float* scratch) {
  const std::size_t d = t.q.cols;
  const std::size_t e = t.v.cols;
  const ClusterScratch f(scratch, d, e, t.keys.size());
  const float mass = prepare(t, f);
  std::fill_n(f.dk, t.keys.size() * tile_pitch(d), 0.0F);
  std::fill_n(f.dv, t.keys.size() * tile_pitch(e), 0.0F);
  std::ranges::fill(gradient.dvalue, 0.0F);
  std::ranges::fill(gradient.dcentroid, 0.0F);
  float dmass = 0.0F;
  for_each_block(
      t, [&](auto members) HWY_ATTR { dmass += backward_block(t, gradient, members, mass, f); });
  if (t.bottom) {
    add_centroid(t, gradient, gradient.constant_mass ? 0.0F : dmass, f);
  } else {
    std::ranges::fill(gradient.dvalue, 0.0F);
    *gradient.delta = 0.0F;
  }
  for (std::size_t l = 0; l < t.keys.size(); ++l) {
    std::copy_n(f.dk + l * tile_pitch(d), d, gradient.dk.row_data(l));
    std::copy_n(f.dv + l * tile_pitch(e), e, gradient.dv.row_data(l));
  }
}

}  // namespace longspan::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longspan {

HWY_EXPORT(ClusterForward);
HWY_EXPORT(ClusterBackward);

std::size_t cluster_forward_scratch(std::size_t d, std::size_t e, std::size_t k) {
  return ClusterScratch(nullptr, d, e, k).forward_floats;
}

std::size_t cluster_backward_scratch(std::size_t d, std::size_t e, std::size_t k) {
  return ClusterScratch(nullptr, d, e, k).total;
}

void cluster_forward(const ClusterTask& task, Matrix y, float* scratch) {
  HWY_DYNAMIC_DISPATCH(ClusterForward)(task, y, scratch);
}

void cluster_backward(const ClusterTask& task, const ClusterGradient& gradient, float* scratch) {
  HWY_DYNAMIC_DISPATCH(ClusterBackward)(task, gradient, scratch);
}

}  // namespace longspan
#endif  // HWY_ONCE
