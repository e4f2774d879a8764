#include "longspan/testing/check_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "longspan/attention/registry.h"
#include "longspan/testing/for_each_target.h"

namespace longspan::testing {

namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

// Sums of `terms` products round to about √terms·ε of their scale; softmax and its derivative chain
// a handful of such sums.
double tolerance(std::size_t terms) {
  return 6 * kEpsilon * std::sqrt(16.0 + static_cast<double>(terms));
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, std::size_t terms,
                 const char* what) {
  const double error = relative_error(got, want);
  EXPECT_LE(error, tolerance(terms)) << what;
}

}  // namespace

std::vector<AttentionCase> cases_for(const Abilities& able) {
  std::vector<AttentionCase> cases = {
      {.m = 1, .n = 1, .d = 1, .e = 1},
      {.m = 2, .n = 2, .d = 3, .e = 3},
      {.batch = 2, .heads = 2, .kv_heads = 2, .m = 63, .n = 63, .d = 16, .e = 16},
      {.heads = 3, .kv_heads = 3, .m = 64, .n = 64, .d = 64, .e = 64, .columns = true},
      {.m = 65, .n = 65, .d = 17, .e = 17},
      {.batch = 2, .m = 129, .n = 129, .d = 32, .e = 32, .columns = true},
      {.m = 300, .n = 300, .d = 64, .e = 64},
      // So many queries that the keys of a head may be copied for them, and several heads.
      {.heads = 3, .kv_heads = 3, .m = 260, .n = 260, .d = 8, .e = 8, .columns = true},
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

void check_exact(const AttentionMaker& make, const AttentionCase& c) {
  SCOPED_TRACE(c.name());
  SitedAttention attention(make, c);
  const Wants wants = attention.wants();
  AttentionProblem p(c, 1, wants);
  p.run(attention);
  const auto& r = p;
  const FullReference<double> reference = p.reference();
  const auto want = reference.backward(AttentionProblem::dense(r.heads(p.dy, c.heads, c.m, c.e)));
  const std::size_t group = c.heads / c.kv_heads;
  const std::size_t terms = c.n + c.d + c.e;
  expect_near(AttentionProblem::dense(r.heads(p.y, c.heads, c.m, c.e)), reference.forward(), terms,
              "y");
  expect_near(AttentionProblem::dense(r.heads(p.dq, c.heads, c.m, c.d)), want.q, terms, "dq");
  expect_near(AttentionProblem::dense(r.heads(p.dk, c.kv_heads, c.n, c.d)), want.k,
              terms + group * c.m, "dk");
  expect_near(AttentionProblem::dense(r.heads(p.dv, c.kv_heads, c.n, c.e)), want.v,
              terms + group * c.m, "dv");
  std::vector<double> dbias = widen(p.dbias);
  for (double& x : dbias) x -= 0.5;
  expect_near(dbias, want.bias, terms + c.batch * c.heads, "dbias");
}

void check_cost(const AttentionMaker& make, const AttentionCase& c) {
  SCOPED_TRACE(c.name());
  SitedAttention attention(make, c);
  const Wants wants = attention.wants();
  AttentionProblem p(c, 1, wants);
  const AttentionCost cost = attention->cost(p.shape());
  p.run(attention);
  EXPECT_EQ(p.forward_peak, cost.forward_scratch);
  EXPECT_EQ(p.backward_peak, cost.backward_scratch);
  EXPECT_TRUE(p.forward_work == cost.forward)
      << p.forward_work.maccs << " MACCs and " << p.forward_work.other_flops() << " other; "
      << cost.forward.maccs << " and " << cost.forward.other_flops() << " predicted";
  EXPECT_TRUE(p.backward_work == cost.backward)
      << p.backward_work.maccs << " MACCs and " << p.backward_work.other_flops() << " other; "
      << cost.backward.maccs << " and " << cost.backward.other_flops() << " predicted";
  EXPECT_TRUE(p.update_work == cost.update)
      << p.update_work.maccs << " MACCs and " << p.update_work.other_flops() << " other; "
      << cost.update.maccs << " and " << cost.update.other_flops() << " predicted";
  const std::vector<float> y = p.y;
  p.run(attention, false);
  EXPECT_EQ(p.forward_peak, cost.forward_scratch) << "without saving";
  EXPECT_EQ(p.y, y) << "without saving";
}

void check_threads(const AttentionMaker& make, const AttentionCase& c) {
  SCOPED_TRACE(c.name());
  SitedAttention attention(make, c);
  const Wants wants = attention.wants();
  AttentionProblem first(c, 1, wants);
  bool known = false;
  for_each_thread_count([&] {
    AttentionProblem p(c, 1, wants);
    const AttentionCost cost = attention->cost(p.shape());
    p.run(attention);
    if (!std::exchange(known, true)) first = p;
    EXPECT_EQ(p.y, first.y);
    EXPECT_EQ(p.dq, first.dq);
    EXPECT_EQ(p.dk, first.dk);
    EXPECT_EQ(p.dv, first.dv);
    EXPECT_EQ(p.dx, first.dx);
    EXPECT_EQ(p.dbias, first.dbias);
    EXPECT_EQ(p.parameter_gradients, first.parameter_gradients);
    EXPECT_TRUE(p.forward_work == cost.forward);
    EXPECT_TRUE(p.backward_work == cost.backward);
    EXPECT_EQ(p.forward_peak, cost.forward_scratch);
    EXPECT_EQ(p.backward_peak, cost.backward_scratch);
  });
}

void check_causal(const AttentionMaker& make, const AttentionCase& c) {
  if (!c.causal || c.m != c.n || c.columns) return;
  SCOPED_TRACE(c.name());
  SitedAttention attention(make, c);
  const Wants wants = attention.wants();
  AttentionProblem before(c, 1, wants);
  before.run(attention, false);
  for (const std::size_t t : {std::size_t{0}, c.n / 2, c.n - 1}) {
    AttentionProblem after(c, 1, wants);
    for (std::size_t plane = 0; plane < c.batch * c.kv_heads; ++plane) {
      for (std::size_t x = 0; x < c.d; ++x) after.k[(plane * c.n + t) * c.d + x] += 3.0F;
      for (std::size_t x = 0; x < c.e; ++x) after.v[(plane * c.n + t) * c.e + x] -= 5.0F;
    }
    for (std::size_t plane = 0; plane < c.batch * c.heads; ++plane) {
      for (std::size_t x = 0; x < c.d; ++x) after.q[(plane * c.m + t) * c.d + x] += 2.0F;
    }
    for (std::size_t at = 0; at < after.x.size(); ++at) {
      if (at / (c.heads * c.d) % c.n == t) after.x[at] += 1.0F;
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
    // Of approximations: where keys are queries, a token may not look at itself, so that the second
    // of two sees one key only; where keys are merged, it may belong to a slot that nobody sees
    // yet.
    const bool blind =
        c.visible || !c.key_lengths.empty() || (!attention->abilities().exact && c.n <= 2);
    EXPECT_TRUE(later || blind) << "token " << t << " reached nobody";
  }
}

void check_padding(const AttentionMaker& make, const AttentionCase& c) {
  if (c.key_lengths.empty() || c.columns) return;
  SCOPED_TRACE(c.name());
  SitedAttention attention(make, c);
  const Wants wants = attention.wants();
  AttentionProblem before(c, 1, wants);
  // A padded token is also a query where queries and keys are the same tokens; nobody asks for its
  // output then.
  const bool same_tokens = wants.shared_qk || wants.input;
  auto overwrite = [&](std::vector<float>& tensor, std::size_t planes, std::size_t width,
                       float to) {
    for (std::size_t at = 0; at < tensor.size(); ++at) {
      const std::size_t b = at / (planes * c.n * width);
      if (at / width % c.n >= static_cast<std::size_t>(c.key_lengths[b])) tensor[at] = to;
    }
  };
  if (same_tokens) overwrite(before.dy, c.heads, c.e, 0.0F);
  AttentionProblem after = before;
  if (wants.shared_qk) overwrite(after.q, c.heads, c.d, 1e3F);
  overwrite(after.k, c.kv_heads, c.d, 1e3F);
  overwrite(after.v, c.kv_heads, c.e, -1e3F);
  overwrite(after.x, 1, c.heads * c.d, 1e3F);
  before.run(attention);
  after.run(attention);
  if (same_tokens) {
    overwrite(before.y, c.heads, c.e, 0.0F);
    overwrite(after.y, c.heads, c.e, 0.0F);
  }
  EXPECT_EQ(after.y, before.y);
  EXPECT_EQ(after.dq, before.dq);
  EXPECT_EQ(after.dk, before.dk);
  EXPECT_EQ(after.dv, before.dv);
  EXPECT_EQ(after.dx, before.dx);
  EXPECT_EQ(after.dbias, before.dbias);
  EXPECT_EQ(after.parameter_gradients, before.parameter_gradients);
}

void check_batch(const AttentionMaker& make, const AttentionCase& c) {
  if (c.batch < 2 || c.columns) return;
  SCOPED_TRACE(c.name());
  SitedAttention attention(make, c);
  const Wants wants = attention.wants();
  AttentionProblem before(c, 1, wants);
  AttentionProblem after(c, 1, wants);
  const std::size_t share = after.q.size() / c.batch;
  for (std::size_t at = 0; at < share; ++at) after.q[at] += 1.0F;
  for (std::size_t at = 0; at < after.k.size() / c.batch; ++at) after.k[at] -= 1.0F;
  before.run(attention, false);
  after.run(attention, false);
  const auto first = static_cast<std::ptrdiff_t>(after.y.size() / c.batch);
  EXPECT_TRUE(std::equal(after.y.begin() + first, after.y.end(), before.y.begin() + first));
}

void check_layout(const AttentionMaker& make, const AttentionCase& c) {
  if (!c.columns) return;
  SCOPED_TRACE(c.name());
  SitedAttention attention(make, c);
  const Wants wants = attention.wants();
  AttentionCase dense_case = c;
  dense_case.columns = false;
  AttentionProblem in_columns(c, 1, wants);
  AttentionProblem in_planes(dense_case, 1, wants);
  auto narrow = [](const std::vector<double>& x) { return std::vector<float>(x.begin(), x.end()); };
  const AttentionInputs in = in_columns.inputs();
  in_planes.q = narrow(AttentionProblem::dense(in.q));
  in_planes.k = narrow(AttentionProblem::dense(in.k));
  in_planes.v = narrow(AttentionProblem::dense(in.v));
  in_columns.run(attention, false);
  in_planes.run(attention, false);
  const auto& r = in_columns;
  expect_near(AttentionProblem::dense(r.heads(r.y, c.heads, c.m, c.e)), widen(in_planes.y),
              c.n + c.d, "y");
}

namespace {

// Tokens [first, last) of a problem as decoding has them, keys and values before them included.
struct DecodeStep {
  std::size_t first;
  std::size_t last;
  std::vector<float> x;  // of the tokens themselves

  DecodeStep(const AttentionProblem& p, std::size_t first_, std::size_t last_)
      : first(first_), last(last_) {
    const std::size_t width = p.c.heads * p.c.d;
    for (std::size_t b = 0; b < p.c.batch && !p.x.empty(); ++b) {
      const auto row = [&](std::size_t i) {
        return p.x.begin() + static_cast<std::ptrdiff_t>((b * p.c.n + i) * width);
      };
      x.insert(x.end(), row(first), row(last));
    }
  }
  AttentionInputs inputs(const AttentionProblem& p) const {
    AttentionInputs in = p.inputs();
    in.q.data += first * in.q.row_stride;
    in.q.n = last - first;
    in.k = in.k.first(last);
    in.v = in.v.first(last);
    in.x = ConstMatrix(x.data(), p.x.empty() ? 0 : p.c.batch * (last - first), p.c.heads * p.c.d);
    return in;
  }
};

// Rows [first, last) of the whole sequence of the first `last` tokens.
std::vector<double> rows_of_the_whole(const Attention& attention, const AttentionProblem& p,
                                      const DecodeStep& step) {
  const DecodeStep whole(p, 0, step.last);
  const AttentionInputs in = whole.inputs(p);
  std::vector<float> y(p.c.batch * p.c.heads * step.last * p.c.e);
  Heads out(y.data(), p.c.batch, p.c.heads, step.last, p.c.e);
  Arena arena(attention.cost(shape_of(in)).forward_scratch);
  attention.forward({in, out, {}, arena});
  out.data += step.first * out.row_stride;
  out.n = step.last - step.first;
  return AttentionProblem::dense(out);
}

// One step with notes; y.
std::vector<float> run_step(const Attention& attention, const AttentionProblem& p,
                            const DecodeStep& step, std::vector<float>& notes) {
  AttentionInputs in = step.inputs(p);
  in.notes = notes;
  const AttentionCost cost = attention.cost(shape_of(in));
  std::vector<float> y(p.c.batch * p.c.heads * in.q.n * p.c.e);
  Arena arena(cost.forward_scratch);
  Meter meter;
  const Meter::Use use(meter);
  const Place::Scope scope("attention", Phase::kForward);
  attention.forward({in, Heads(y.data(), p.c.batch, p.c.heads, in.q.n, p.c.e), {}, arena});
  EXPECT_EQ(arena.peak(), cost.forward_scratch);
  EXPECT_TRUE(meter.at("attention", Phase::kForward) == cost.forward);
  return y;
}

}  // namespace

void check_decode(const AttentionMaker& make) {
  constexpr std::size_t kCapacity = 150;
  const AttentionCase c{.batch = 2,
                        .heads = 2,
                        .kv_heads = 2,
                        .m = kCapacity,
                        .n = kCapacity,
                        .d = 8,
                        .e = 8,
                        .causal = true};
  SitedAttention attention(make, c);
  const AttentionProblem p(c, 1, attention.wants());
  AttentionShape full = p.shape();
  if (attention->state_floats(full) > 0) return;
  std::vector<float> first_run;
  for_each_thread_count([&] {
    std::vector<float> notes(attention->note_floats(full), std::nanf(""));
    std::vector<float> all;
    std::size_t done = 0;
    for (const std::size_t last :
         {1U, 2U, 3U, 16U, 17U, 31U, 64U, 65U, 66U, 97U, 128U, 129U, 149U, 150U}) {
      SCOPED_TRACE(last);
      const DecodeStep step(p, done, last);
      const std::vector<float> y = run_step(*attention, p, step, notes);
      expect_near(widen(y), rows_of_the_whole(*attention, p, step), c.n + c.d, "decoded rows");
      all.insert(all.end(), y.begin(), y.end());
      done = last;
    }
    if (first_run.empty()) first_run = all;
    EXPECT_EQ(all, first_run);
  });
}

void check_attention(const AttentionMaker& attention) {
  const Abilities abilities =
      attention({.d_model = 4, .d_head = 4, .max_length = 4}, false)->abilities();
  for (const AttentionCase& c : cases_for(abilities)) {
    if (abilities.exact) check_exact(attention, c);
    check_cost(attention, c);
    check_threads(attention, c);
    check_causal(attention, c);
    check_padding(attention, c);
    check_batch(attention, c);
    check_layout(attention, c);
  }
  if (abilities.decode) check_decode(attention);
}

}  // namespace longspan::testing
