#include "longspan/testing/check_attention.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "longspan/testing/for_each_target.h"

namespace longspan::testing {

namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

std::vector<float> normals(std::size_t count, RandomKey key) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = random_normal(key, i);
  return x;
}

std::vector<double> widen(const std::vector<float>& x) { return {x.begin(), x.end()}; }

std::size_t bias_planes(const AttentionCase& c) {
  switch (c.bias) {
    case BiasKind::kNone:
      return 0;
    case BiasKind::kOwn:
      return c.batch * c.heads;
    case BiasKind::kPerHead:
      return c.heads;
    case BiasKind::kPerSequence:
      return c.batch;
    case BiasKind::kShared:
      return 1;
  }
  return 0;
}

template <class T>
TableView<T> bias_view(const AttentionCase& c, T* data) {
  if (c.bias == BiasKind::kNone) return {};
  const std::size_t plane = c.m * c.n;
  TableView<T> view;
  view.data = data;
  view.row_stride = c.n;
  if (c.bias == BiasKind::kOwn || c.bias == BiasKind::kPerHead) view.head_stride = plane;
  if (c.bias == BiasKind::kOwn) view.batch_stride = c.heads * plane;
  if (c.bias == BiasKind::kPerSequence) view.batch_stride = plane;
  return view;
}

// Sums of `terms` products round to about √terms·ε of their scale; softmax and its derivative chain
// a handful of such sums.
double tolerance(std::size_t terms) {
  return 6 * kEpsilon * std::sqrt(16.0 + static_cast<double>(terms));
}

void expect_close(const std::vector<double>& got, const std::vector<double>& want,
                  std::size_t terms, const char* what) {
  const double error = relative_error(got, want);
  EXPECT_LE(error, tolerance(terms)) << what;
}

}  // namespace

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double error = 0.0;
  double scale = 1.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= error)) error = difference;  // NaN stays
    scale = std::max(scale, std::abs(b[i]));
  }
  return error / scale;
}

std::string AttentionCase::name() const {
  std::string lengths;
  for (const auto l : key_lengths) lengths += fmt::format(" {}", l);
  return fmt::format("batch {} heads {}/{} m {} n {} d {} e {}{}{} bias {}{} dropout {}{}", batch,
                     heads, kv_heads, m, n, d, e, causal ? " causal" : "",
                     lengths.empty() ? "" : " lengths" + lengths, static_cast<int>(bias),
                     visible ? " visible" : "", dropout, columns ? " columns" : "");
}

AttentionProblem::AttentionProblem(const AttentionCase& c_, std::uint64_t seed) : c(c_) {
  const std::size_t queries = c.batch * c.heads * c.m;
  const std::size_t keys = c.batch * c.kv_heads * c.n;
  q = normals(queries * c.d, derive(seed, "q"));
  k = normals(keys * c.d, derive(seed, "k"));
  v = normals(keys * c.e, derive(seed, "v"));
  dy = normals(queries * c.e, derive(seed, "dy"));
  bias = normals(bias_planes(c) * c.m * c.n, derive(seed, "bias"));
  if (!c.visible) return;
  visible.resize(queries * c.n);
  const RandomKey key = derive(seed, "visible");
  for (std::size_t i = 0; i < visible.size(); ++i) {
    const bool blind = i / c.n % 5 == 3;
    visible[i] = !blind && random_uniform(key, i) < 0.6F ? 1 : 0;
  }
}

AttentionShape AttentionProblem::shape() const {
  AttentionShape s = shape_of(inputs());
  s.bias_gradient = s.bias;
  return s;
}

Heads AttentionProblem::heads(std::vector<float>& x, std::size_t heads_, std::size_t n,
                              std::size_t width) const {
  if (!c.columns) return {x.data(), c.batch, heads_, n, width};
  return Heads::from_columns(Matrix(x.data(), c.batch * n, heads_ * width), c.batch, heads_);
}
ConstHeads AttentionProblem::heads(const std::vector<float>& x, std::size_t heads_, std::size_t n,
                                   std::size_t width) const {
  if (!c.columns) return {x.data(), c.batch, heads_, n, width};
  return ConstHeads::from_columns(ConstMatrix(x.data(), c.batch * n, heads_ * width), c.batch,
                                  heads_);
}

AttentionInputs AttentionProblem::inputs() const {
  AttentionInputs in;
  in.q = heads(q, c.heads, c.m, c.d);
  in.k = heads(k, c.kv_heads, c.n, c.d);
  in.v = heads(v, c.kv_heads, c.n, c.e);
  in.mask.causal = c.causal;
  in.mask.key_lengths = c.key_lengths;
  in.mask.bias = bias_view<const float>(c, bias.data());
  if (c.visible) in.mask.visible = {visible.data(), c.heads * c.m * c.n, c.m * c.n, c.n};
  in.dropout = {c.dropout, 99};
  return in;
}

std::vector<double> AttentionProblem::dense(ConstHeads x) {
  std::vector<double> out;
  out.reserve(x.batch * x.heads * x.n * x.d);
  for (std::size_t plane = 0; plane < x.batch * x.heads; ++plane) {
    const ConstMatrix head = x.head(plane / x.heads, plane % x.heads);
    for (std::size_t i = 0; i < x.n; ++i) {
      out.insert(out.end(), head.row_data(i), head.row_data(i) + x.d);
    }
  }
  return out;
}

FullReference<double> AttentionProblem::reference() const {
  const AttentionInputs in = inputs();
  FullReference<double> r;
  r.shape = shape();
  r.mask = in.mask;
  r.dropout = in.dropout;
  r.q = dense(in.q);
  r.k = dense(in.k);
  r.v = dense(in.v);
  r.bias = widen(bias);
  return r;
}

void AttentionProblem::run(const Attention& attention, bool gradients) {
  const AttentionInputs in = inputs();
  const AttentionCost cost = attention.cost(shape());
  constexpr float kGarbage = 77.0F;
  y.assign(dy.size(), kGarbage);
  saved.assign(gradients ? cost.saved : 0, kGarbage);
  Meter meter;
  const Meter::Use use(meter);
  {
    const Meter::Scope scope("attention", Phase::kForward);
    Arena arena(cost.forward_scratch);
    attention.forward(in, heads(y, c.heads, c.m, c.e), saved, arena);
    forward_peak = arena.peak();
  }
  forward_work = meter.at("attention", Phase::kForward);
  if (!gradients) return;
  dq.assign(q.size(), kGarbage);
  dk.assign(k.size(), kGarbage);
  dv.assign(v.size(), kGarbage);
  dbias.assign(bias.size(), 0.5F);
  const AttentionGradients grad{heads(dq, c.heads, c.m, c.d), heads(dk, c.kv_heads, c.n, c.d),
                                heads(dv, c.kv_heads, c.n, c.e), bias_view(c, dbias.data())};
  const Meter::Scope scope("attention", Phase::kBackward);
  Arena arena(cost.backward_scratch);
  const auto& result = *this;
  attention.backward(in, result.heads(y, c.heads, c.m, c.e), result.heads(dy, c.heads, c.m, c.e),
                     saved, grad, arena);
  backward_peak = arena.peak();
  backward_work = meter.at("attention", Phase::kBackward);
}

std::vector<AttentionCase> cases_for(const Abilities& able) {
  std::vector<AttentionCase> cases = {
      {.m = 1, .n = 1, .d = 1, .e = 1},
      {.m = 2, .n = 2, .d = 3, .e = 3},
      {.batch = 2, .heads = 2, .kv_heads = 2, .m = 63, .n = 63, .d = 16, .e = 16},
      {.heads = 3, .kv_heads = 3, .m = 64, .n = 64, .d = 64, .e = 64, .columns = true},
      {.m = 65, .n = 65, .d = 17, .e = 17},
      {.batch = 2, .m = 129, .n = 129, .d = 32, .e = 32, .columns = true},
      {.m = 300, .n = 300, .d = 64, .e = 64},
  };
  if (able.cross) {
    cases.push_back({.m = 1, .n = 67, .d = 64, .e = 16});
    cases.push_back({.m = 3, .n = 130, .d = 17, .e = 5});
    cases.push_back({.batch = 2, .m = 67, .n = 129, .d = 16, .e = 3});
    cases.push_back({.m = 129, .n = 2, .d = 3, .e = 17});
    cases.push_back({.m = 70, .n = 600, .d = 8, .e = 8});
  }
  std::vector<AttentionCase> all;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    all.push_back(cases[i]);
    if (able.causal) {
      all.push_back(cases[i]);
      all.back().causal = true;
    }
    // Everything together.
    AttentionCase c = cases[i];
    c.causal = able.causal && i % 2 == 0;
    c.batch = c.n < 200 ? 3 : 2;
    if (able.grouped_heads) {
      c.heads = c.n < 200 ? 4 : 2;
      c.kv_heads = c.heads / 2;
    }
    if (able.key_lengths) {
      const auto n = static_cast<std::int32_t>(c.n);
      c.key_lengths = {(2 * n + 2) / 3, 0, n};
      c.key_lengths.resize(c.batch);
    }
    if (able.bias) c.bias = static_cast<BiasKind>(i % 5);
    if (able.boolean_mask) c.visible = i % 3 != 0;
    if (able.dropout) c.dropout = i % 2 == 1 ? 0.3F : 0.0F;
    all.push_back(c);
  }
  return all;
}

void check_exact(const Attention& attention, const AttentionCase& c) {
  SCOPED_TRACE(c.name());
  AttentionProblem p(c);
  p.run(attention);
  const auto& r = p;
  const FullReference<double> reference = p.reference();
  const auto want = reference.backward(AttentionProblem::dense(r.heads(p.dy, c.heads, c.m, c.e)));
  const std::size_t group = c.heads / c.kv_heads;
  const std::size_t terms = c.n + c.d + c.e;
  expect_close(AttentionProblem::dense(r.heads(p.y, c.heads, c.m, c.e)), reference.forward(), terms,
               "y");
  expect_close(AttentionProblem::dense(r.heads(p.dq, c.heads, c.m, c.d)), want.q, terms, "dq");
  expect_close(AttentionProblem::dense(r.heads(p.dk, c.kv_heads, c.n, c.d)), want.k,
               terms + group * c.m, "dk");
  expect_close(AttentionProblem::dense(r.heads(p.dv, c.kv_heads, c.n, c.e)), want.v,
               terms + group * c.m, "dv");
  std::vector<double> dbias = widen(p.dbias);
  for (double& x : dbias) x -= 0.5;
  expect_close(dbias, want.bias, terms + c.batch * c.heads, "dbias");
}

void check_cost(const Attention& attention, const AttentionCase& c) {
  SCOPED_TRACE(c.name());
  AttentionProblem p(c);
  const AttentionCost cost = attention.cost(p.shape());
  p.run(attention);
  EXPECT_EQ(p.forward_peak, cost.forward_scratch);
  EXPECT_EQ(p.backward_peak, cost.backward_scratch);
  EXPECT_TRUE(p.forward_work == cost.forward)
      << p.forward_work.maccs << " MACCs and " << p.forward_work.other_flops() << " other; "
      << cost.forward.maccs << " and " << cost.forward.other_flops() << " predicted";
  EXPECT_TRUE(p.backward_work == cost.backward)
      << p.backward_work.maccs << " MACCs and " << p.backward_work.other_flops() << " other; "
      << cost.backward.maccs << " and " << cost.backward.other_flops() << " predicted";
  const std::vector<float> y = p.y;
  p.run(attention, false);
  EXPECT_EQ(p.forward_peak, cost.forward_scratch) << "without saving";
  EXPECT_EQ(p.y, y) << "without saving";
}

void check_threads(const Attention& attention, const AttentionCase& c) {
  SCOPED_TRACE(c.name());
  AttentionProblem first(c);
  bool known = false;
  for_each_thread_count([&] {
    AttentionProblem p(c);
    const AttentionCost cost = attention.cost(p.shape());
    p.run(attention);
    if (!std::exchange(known, true)) first = p;
    EXPECT_EQ(p.y, first.y);
    EXPECT_EQ(p.dq, first.dq);
    EXPECT_EQ(p.dk, first.dk);
    EXPECT_EQ(p.dv, first.dv);
    EXPECT_EQ(p.dbias, first.dbias);
    EXPECT_TRUE(p.forward_work == cost.forward);
    EXPECT_TRUE(p.backward_work == cost.backward);
    EXPECT_EQ(p.forward_peak, cost.forward_scratch);
    EXPECT_EQ(p.backward_peak, cost.backward_scratch);
  });
}

void check_causal(const Attention& attention, const AttentionCase& c) {
  if (!c.causal || c.m != c.n || c.columns) return;
  SCOPED_TRACE(c.name());
  AttentionProblem before(c);
  before.run(attention, false);
  for (const std::size_t t : {std::size_t{0}, c.n / 2, c.n - 1}) {
    AttentionProblem after(c);
    for (std::size_t plane = 0; plane < c.batch * c.kv_heads; ++plane) {
      for (std::size_t x = 0; x < c.d; ++x) after.k[(plane * c.n + t) * c.d + x] += 3.0F;
      for (std::size_t x = 0; x < c.e; ++x) after.v[(plane * c.n + t) * c.e + x] -= 5.0F;
    }
    for (std::size_t plane = 0; plane < c.batch * c.heads; ++plane) {
      for (std::size_t x = 0; x < c.d; ++x) after.q[(plane * c.m + t) * c.d + x] += 2.0F;
    }
    after.run(attention, false);
    bool later = false;
    for (std::size_t at = 0; at < after.y.size(); ++at) {
      if (at / c.e % c.m < t) {
        ASSERT_EQ(after.y[at], before.y[at]) << "token " << t << " reached " << at / c.e % c.m;
      } else {
        later = later || after.y[at] != before.y[at];
      }
    }
    const bool blind = c.visible || !c.key_lengths.empty();
    EXPECT_TRUE(later || blind) << "token " << t << " reached nobody";
  }
}

void check_padding(const Attention& attention, const AttentionCase& c) {
  if (c.key_lengths.empty() || c.columns) return;
  SCOPED_TRACE(c.name());
  AttentionProblem before(c);
  AttentionProblem after(c);
  for (std::size_t at = 0; at < after.k.size(); ++at) {
    const std::size_t b = at / (c.kv_heads * c.n * c.d);
    if (at / c.d % c.n >= static_cast<std::size_t>(c.key_lengths[b])) after.k[at] = 1e3F;
  }
  for (std::size_t at = 0; at < after.v.size(); ++at) {
    const std::size_t b = at / (c.kv_heads * c.n * c.e);
    if (at / c.e % c.n >= static_cast<std::size_t>(c.key_lengths[b])) after.v[at] = -1e3F;
  }
  before.run(attention);
  after.run(attention);
  EXPECT_EQ(after.y, before.y);
  EXPECT_EQ(after.dq, before.dq);
  EXPECT_EQ(after.dk, before.dk);
  EXPECT_EQ(after.dv, before.dv);
  EXPECT_EQ(after.dbias, before.dbias);
}

void check_batch(const Attention& attention, const AttentionCase& c) {
  if (c.batch < 2 || c.columns) return;
  SCOPED_TRACE(c.name());
  AttentionProblem before(c);
  AttentionProblem after(c);
  const std::size_t share = after.q.size() / c.batch;
  for (std::size_t at = 0; at < share; ++at) after.q[at] += 1.0F;
  for (std::size_t at = 0; at < after.k.size() / c.batch; ++at) after.k[at] -= 1.0F;
  before.run(attention, false);
  after.run(attention, false);
  const auto first = static_cast<std::ptrdiff_t>(after.y.size() / c.batch);
  EXPECT_TRUE(std::equal(after.y.begin() + first, after.y.end(), before.y.begin() + first));
}

void check_layout(const Attention& attention, const AttentionCase& c) {
  if (!c.columns) return;
  SCOPED_TRACE(c.name());
  AttentionCase dense_case = c;
  dense_case.columns = false;
  AttentionProblem in_columns(c);
  AttentionProblem in_planes(dense_case);
  auto narrow = [](const std::vector<double>& x) { return std::vector<float>(x.begin(), x.end()); };
  const AttentionInputs in = in_columns.inputs();
  in_planes.q = narrow(AttentionProblem::dense(in.q));
  in_planes.k = narrow(AttentionProblem::dense(in.k));
  in_planes.v = narrow(AttentionProblem::dense(in.v));
  in_columns.run(attention, false);
  in_planes.run(attention, false);
  const auto& r = in_columns;
  expect_close(AttentionProblem::dense(r.heads(r.y, c.heads, c.m, c.e)), widen(in_planes.y),
               c.n + c.d, "y");
}

void check_attention(const Attention& attention) {
  for (const AttentionCase& c : cases_for(attention.abilities())) {
    if (attention.abilities().exact) check_exact(attention, c);
    check_cost(attention, c);
    check_threads(attention, c);
    check_causal(attention, c);
    check_padding(attention, c);
    check_batch(attention, c);
    check_layout(attention, c);
  }
}

}  // namespace longspan::testing
