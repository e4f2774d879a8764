#include "longspan/kernels/feature/feature_scan.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "longspan/base/random.h"
#include "longspan/kernels/feature/feature_plan.h"
#include "longspan/kernels/feature/feature_ref.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace feature_scan_test {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

std::vector<float> normals(std::size_t count, std::string_view name, float deviation = 1.0F) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = deviation * random_normal(derive(7, name), i);
  }
  return x;
}

std::vector<double> widen(const std::vector<float>& x) { return {x.begin(), x.end()}; }

double error_of(const std::vector<float>& a, const std::vector<double>& b) {
  double error = 0.0;
  double scale = 0.1;  // gradients are differences of terms of order one
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= error)) error = difference;
    scale = std::max(scale, std::abs(b[i]));
  }
  return error / scale;
}

// Everything a map may be, with the memory behind it.
struct Maps {
  std::size_t d;
  std::vector<float> omega, signs, norms;

  explicit Maps(std::size_t d_, std::size_t rows = 21) : d(d_) {
    omega = normals(rows * d, "omega");
    const std::size_t p = FeatureProjection::padded(d);
    FeatureProjection projection;
    projection.rows = rows;
    signs = normals(projection.sign_rows(d) * p, "signs");
    for (float& s : signs) s = s > 0.0F ? 1.0F : -1.0F;
    norms = normals(rows, "norms");
    for (float& x : norms) x = std::abs(x) / static_cast<float>(p);
  }
  FeatureMap plain(FeatureKind kind) const {
    FeatureMap map;
    map.kind = kind;
    map.projection.rows = omega.size() / d;
    map.projection.dense = {omega.data(), omega.size() / d, d};
    map.scale = 1.0F / std::sqrt(std::sqrt(static_cast<float>(d)));
    map.norm = kind == FeatureKind::kExp;
    map.epsilon = kind == FeatureKind::kRelu ? 1e-3F : kind == FeatureKind::kShifted ? 1e-4F : 0.0F;
    return map;
  }
  std::vector<std::pair<std::string, FeatureMap>> all() const {
    FeatureMap elu;
    elu.denominator_epsilon = 1e-6F;
    FeatureMap softmax;
    softmax.kind = FeatureKind::kExp;
    softmax.over_sequence = true;
    softmax.gain = 0.5F;
    FeatureMap mirrored = plain(FeatureKind::kExp);
    mirrored.mirrored = true;
    FeatureMap hadamard = plain(FeatureKind::kExp);
    hadamard.projection.hadamard = true;
    hadamard.projection.signs = signs.data();
    hadamard.projection.norms = norms.data();
    FeatureMap shifted = plain(FeatureKind::kShifted);
    shifted.sum_epsilon = 1e-3F;
    return {{"elu", elu},
            {"softmax", softmax},
            {"relu", plain(FeatureKind::kRelu)},
            {"exp", plain(FeatureKind::kExp)},
            {"mirrored", mirrored},
            {"hadamard", hadamard},
            {"shifted", shifted}};
  }
};

struct Problem {
  FeatureShape shape;
  std::vector<float> q, k, v, dy;
  std::vector<float> y, saved, dq, dk, dv;
  FeatureCost cost;
  Work forward_work, backward_work;
  std::size_t forward_peak = 0, backward_peak = 0;

  explicit Problem(const FeatureShape& s, float deviation = 1.0F) : shape(s) {
    q = normals(s.batch * s.heads * s.m * s.d, "q", deviation);
    k = normals(s.batch * s.kv_heads * s.n * s.d, "k", deviation);
    v = normals(s.batch * s.kv_heads * s.n * s.e, "v");
    dy = normals(s.batch * s.heads * s.m * s.e, "dy");
  }
  FeatureTensors tensors() const {
    const FeatureShape& s = shape;
    return {{q.data(), s.batch, s.heads, s.m, s.d},
            {k.data(), s.batch, s.kv_heads, s.n, s.d},
            {v.data(), s.batch, s.kv_heads, s.n, s.e},
            s.causal,
            s.key_lengths};
  }
  void run(const FeatureMap& map) {
    const FeatureShape& s = shape;
    cost = feature_cost(map, s);
    y.assign(dy.size(), 77.0F);
    saved.assign(cost.saved, 77.0F);
    dq.assign(q.size(), 77.0F);
    dk.assign(k.size(), 77.0F);
    dv.assign(v.size(), 77.0F);
    Meter meter;
    const Meter::Use use(meter);
    {
      const Place::Scope scope("x", Phase::kForward);
      Arena arena(cost.forward_scratch);
      feature_forward(map, tensors(), {y.data(), s.batch, s.heads, s.m, s.e}, saved, arena);
      forward_peak = arena.peak();
    }
    const Place::Scope scope("x", Phase::kBackward);
    Arena arena(cost.backward_scratch);
    feature_backward(map, tensors(), {y.data(), s.batch, s.heads, s.m, s.e},
                     {dy.data(), s.batch, s.heads, s.m, s.e}, saved,
                     {dq.data(), s.batch, s.heads, s.m, s.d},
                     {dk.data(), s.batch, s.kv_heads, s.n, s.d},
                     {dv.data(), s.batch, s.kv_heads, s.n, s.e}, arena);
    backward_peak = arena.peak();
    forward_work = meter.at("x", Phase::kForward);
    backward_work = meter.at("x", Phase::kBackward);
  }
};

// Σ dy⊙y by complex step along some elements of one tensor, checked against `got`.
template <class Tensor>
double gradient_error(const FeatureMap& map, const Problem& p, const std::vector<float>& got,
                      Tensor tensor) {
  constexpr double kStep = 1e-30;
  using C = std::complex<double>;
  const auto complex_of = [](const std::vector<float>& x) {
    return std::vector<C>(x.begin(), x.end());
  };
  FeatureReference<C> r{map, p.shape, complex_of(p.q), complex_of(p.k), complex_of(p.v)};
  std::vector<float> ours;
  std::vector<double> want;
  auto& x = r.*tensor;
  const std::size_t stride = std::max<std::size_t>(1, x.size() / (p.shape.n > 500 ? 2 : 12)) | 1U;
  for (std::size_t at = 0; at < x.size(); at += stride) {
    const C before = x[at];
    x[at] += C(0.0, kStep);
    const auto y = r.forward();
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += p.dy[i] * y[i].imag() / kStep;
    x[at] = before;
    ours.push_back(got[at]);
    want.push_back(sum);
  }
  return error_of(ours, want);
}

void check(const std::string& name, const FeatureMap& map, const FeatureShape& shape) {
  SCOPED_TRACE(fmt::format("{} batch {} heads {}/{} m {} n {} d {} e {}{}", name, shape.batch,
                           shape.heads, shape.kv_heads, shape.m, shape.n, shape.d, shape.e,
                           shape.causal ? " causal" : ""));
  Problem p(shape);
  p.run(map);
  const FeatureReference<double> r{map, shape, widen(p.q), widen(p.k), widen(p.v)};
  const double tolerance =
      20 * kEpsilon * std::sqrt(16.0 + static_cast<double>(shape.m + shape.n + shape.d));
  EXPECT_LE(error_of(p.y, r.forward()), tolerance) << "y";
  using R = FeatureReference<std::complex<double>>;
  EXPECT_LE(gradient_error(map, p, p.dq, &R::q), tolerance) << "dq";
  EXPECT_LE(gradient_error(map, p, p.dk, &R::k), tolerance) << "dk";
  EXPECT_LE(gradient_error(map, p, p.dv, &R::v), tolerance) << "dv";
  EXPECT_EQ(p.forward_peak, p.cost.forward_scratch);
  EXPECT_EQ(p.backward_peak, p.cost.backward_scratch);
  EXPECT_TRUE(p.forward_work == p.cost.forward)
      << p.forward_work.maccs << " " << p.forward_work.other_flops() << " predicted "
      << p.cost.forward.maccs << " " << p.cost.forward.other_flops();
  EXPECT_TRUE(p.backward_work == p.cost.backward)
      << p.backward_work.maccs << " " << p.backward_work.other_flops() << " predicted "
      << p.cost.backward.maccs << " " << p.cost.backward.other_flops();
}

// Runs of blocks that are counted as one have the same counts, and end where they change.
TEST(FeaturePlan, CountsAlikeBlocksAtOnce) {
  const std::vector<std::int32_t> lengths = {0, 1, 63, 64, 65, 200, 512, 700};
  for (const bool causal : {false, true}) {
    for (const std::size_t m : {1U, 64U, 100U, 640U, 700U, 900U}) {
      FeatureShape shape{.batch = lengths.size(),
                         .heads = 1,
                         .kv_heads = 1,
                         .m = m,
                         .n = 700,
                         .d = 4,
                         .e = 4,
                         .causal = causal,
                         .key_lengths = lengths};
      const FeatureMap map{.kind = FeatureKind::kElu};
      const detail::FeaturePlan plan(map, shape);
      for (std::size_t b = 0; b < lengths.size(); ++b) {
        std::size_t runs = 0;
        for (std::size_t t = 0, run = 1; t < plan.blocks(); t += run, ++runs) {
          run = plan.alike(b, t, plan.blocks());
          const detail::FeatureRange first = plan.block(b, t);
          for (std::size_t i = t; i < t + run; ++i) {
            const detail::FeatureRange r = plan.block(b, i);
            EXPECT_EQ(r.keys, first.keys) << b << " " << m << " " << i;
            EXPECT_EQ(r.queries, first.queries) << b << " " << m << " " << i;
            EXPECT_EQ(r.seen, first.seen) << b << " " << m << " " << i;
          }
        }
        EXPECT_LE(runs, 6U) << b << " " << m;
      }
    }
  }
}

TEST(FeatureScan, AgreesWithTheDefinition) {
  const std::vector<std::int32_t> lengths = {40, 0, 71};
  const std::vector<FeatureShape> shapes = {
      {.m = 1, .n = 1, .d = 1, .e = 1},
      {.m = 67, .n = 67, .d = 5, .e = 3},
      {.heads = 2, .kv_heads = 1, .m = 17, .n = 65, .d = 16, .e = 17},
      {.batch = 3, .m = 30, .n = 71, .d = 3, .e = 16, .key_lengths = lengths},
      {.m = 70, .n = 20, .d = 4, .e = 4},
  };
  for (FeatureShape shape : shapes) {
    const Maps maps(shape.d);
    for (const auto& [name, map] : maps.all()) {
      shape.causal = false;
      FeatureMap own = map;
      check(name, own, shape);
      if (map.over_sequence) continue;
      shape.causal = true;
      check(name, own, shape);
    }
  }
}

// Transforms of every radix and depth; rows in whole blocks and in a piece of one.
TEST(FeatureScan, HadamardOfEveryDepthAgreesWithTheDefinition) {
  for (const std::size_t d : {2U, 8U, 13U, 32U, 64U, 127U, 512U}) {
    const Maps maps(d, d < 512 ? 5 * FeatureProjection::padded(d) + 1 : 13);
    for (const auto& [name, map] : maps.all()) {
      if (map.projection.hadamard) check(name, map, {.m = 3, .n = 5, .d = d, .e = 2});
    }
  }
}

// Long enough for several parts.
TEST(FeatureScan, PartsAgreeWithTheDefinition) {
  const Maps maps(3, 6);
  for (const auto& [name, map] : maps.all()) {
    check(name, map, {.m = 531, .n = 531, .d = 3, .e = 2});
    if (!map.over_sequence) {
      check(name, map, {.m = 400, .n = 790, .d = 3, .e = 2, .causal = true});
    }
  }
}

TEST(FeatureScan, IsTheSameForAnyNumberOfThreads) {
  const Maps maps(8);
  for (const auto& [name, map] : maps.all()) {
    for (const bool causal : {false, true}) {
      if (causal && map.over_sequence) continue;
      Problem first(
          {.heads = 2, .kv_heads = 2, .m = 700, .n = 700, .d = 8, .e = 8, .causal = causal});
      bool known = false;
      testing::for_each_thread_count([&, &map = map] {
        Problem p(first.shape);
        p.run(map);
        if (!std::exchange(known, true)) first = p;
        EXPECT_EQ(p.y, first.y);
        EXPECT_EQ(p.dq, first.dq);
        EXPECT_EQ(p.dk, first.dk);
        EXPECT_EQ(p.dv, first.dv);
        EXPECT_EQ(p.forward_peak, p.cost.forward_scratch);
        EXPECT_EQ(p.backward_peak, p.cost.backward_scratch);
      });
    }
  }
}

TEST(FeatureScan, AgreesOnEveryInstructionSet) {
  const Maps maps(9);
  testing::for_each_target([&] {
    for (const auto& [name, map] : maps.all()) {
      check(name, map, {.m = 35, .n = 35, .d = 9, .e = 19, .causal = !map.over_sequence});
    }
  });
}

// Exponential features of any size: no overflow, no division by zero, exact where double can say.
TEST(FeatureScan, ExponentialsStayFinite) {
  const Maps maps(16, 40);
  const FeatureMap map = maps.plain(FeatureKind::kExp);
  for (const float deviation : {3.0F, 6.0F}) {
    for (const bool causal : {false, true}) {
      Problem p({.m = 200, .n = 200, .d = 16, .e = 4, .causal = causal}, deviation);
      p.run(map);
      const FeatureReference<double> r{map, p.shape, widen(p.q), widen(p.k), widen(p.v)};
      EXPECT_LE(error_of(p.y, r.forward()), 1e-4);
      for (const auto* x : {&p.y, &p.dq, &p.dk, &p.dv}) {
        for (const float value : *x) ASSERT_TRUE(std::isfinite(value));
      }
    }
  }
}

// Keys that come ever nearer: every feature rises by hundreds of powers of two.
TEST(FeatureScan, FollowsFeaturesThatRise) {
  const Maps maps(16, 40);
  const FeatureMap map = maps.plain(FeatureKind::kExp);
  for (const bool causal : {false, true}) {
    Problem p({.m = 600, .n = 600, .d = 16, .e = 4, .causal = causal});
    for (std::size_t i = 0; i < p.k.size(); ++i) {
      p.k[i] *= 12.0F - 0.02F * static_cast<float>(i / 16);
    }
    p.run(map);
    const FeatureReference<double> r{map, p.shape, widen(p.q), widen(p.k), widen(p.v)};
    using R = FeatureReference<std::complex<double>>;
    EXPECT_LE(error_of(p.y, r.forward()), 1e-4);
    EXPECT_LE(gradient_error(map, p, p.dq, &R::q), 1e-3);
    EXPECT_LE(gradient_error(map, p, p.dv, &R::v), 1e-3);
  }
}

TEST(FeatureScan, DecodingIsThePrefill) {
  const Maps maps(8);
  for (const auto& [name, map] : maps.all()) {
    if (map.over_sequence || map.kind == FeatureKind::kShifted) continue;
    SCOPED_TRACE(name);
    Problem p(
        {.batch = 2, .heads = 4, .kv_heads = 2, .m = 83, .n = 83, .d = 8, .e = 5, .causal = true});
    p.run(map);
    std::vector<float> state(feature_decode_floats(map, p.shape), 0.0F);
    std::size_t at = 0;
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{70}, std::size_t{1}, std::size_t{11}}) {
      FeatureShape s = p.shape;
      s.m = s.n = count;
      const FeatureCost cost = feature_decode_cost(map, s);
      ASSERT_EQ(state.size(), feature_decode_floats(map, s));
      Arena arena(cost.forward_scratch);
      std::vector<float> y(s.batch * s.heads * count * s.e);
      FeatureTensors in = p.tensors();
      auto from = [&](ConstHeads x) {
        x.data += at * x.row_stride;
        x.n = count;
        return x;
      };
      in.q = from(in.q);
      in.k = from(in.k);
      in.v = from(in.v);
      Meter meter;
      const Meter::Use use(meter);
      const Place::Scope scope("x", Phase::kForward);
      feature_decode(map, in, {y.data(), s.batch, s.heads, count, s.e}, state, arena);
      EXPECT_TRUE(meter.at("x", Phase::kForward) == cost.forward);
      EXPECT_EQ(arena.peak(), cost.forward_scratch);
      for (std::size_t plane = 0; plane < s.batch * s.heads; ++plane) {
        for (std::size_t i = 0; i < count * s.e; ++i) {
          EXPECT_NEAR(y[plane * count * s.e + i], p.y[(plane * 83 + at) * s.e + i], 2e-5);
        }
      }
      at += count;
    }
  }
}

}  // namespace feature_scan_test
}  // namespace longspan
