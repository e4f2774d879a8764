// An approximate mechanism against its own definition, written out with its matrix.
//
// The reference is a generic callable: given AttentionTensors<T> it returns y, [batch, heads, m,
// e]. Gradients are complex steps through it, one for every element of every tensor.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>

#include "longspan/testing/attention_problem.h"

namespace longspan::testing {

namespace detail {

inline std::vector<std::complex<double>> complex_of(const std::vector<double>& x) {
  return {x.begin(), x.end()};
}

inline AttentionTensors<std::complex<double>> complex_of(const AttentionTensors<double>& t) {
  AttentionTensors<std::complex<double>> z{.shape = t.shape,
                                           .mask = t.mask,
                                           .dropout = t.dropout,
                                           .q = complex_of(t.q),
                                           .k = complex_of(t.k),
                                           .v = complex_of(t.v),
                                           .x = complex_of(t.x),
                                           .history = complex_of(t.history),
                                           .token_types = t.token_types,
                                           .parameters = {}};
  for (const auto& [name, values] : t.parameters) z.parameters[name] = complex_of(values);
  return z;
}

// ∂(Σ dy⊙y) along every element of `tensor`, which is part of `t`.
template <class Reference>
std::vector<double> complex_step(const Reference& reference,
                                 const AttentionTensors<std::complex<double>>& t,
                                 std::vector<std::complex<double>>& tensor,
                                 const std::vector<double>& dy) {
  constexpr double kStep = 1e-30;
  std::vector<double> gradient;
  for (auto& element : tensor) {
    const auto before = element;
    element += std::complex<double>(0.0, kStep);
    const std::vector<std::complex<double>> y = reference(t);
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i].imag() / kStep;
    gradient.push_back(sum);
    element = before;
  }
  return gradient;
}

}  // namespace detail

// Values and gradients of q, k, v, x and every trained parameter. `tolerance` is relative to the
// largest entry of each tensor.
template <class Reference>
void check_reference(const AttentionMaker& make, const AttentionCase& c, const Reference& reference,
                     double tolerance = 5e-6) {
  SCOPED_TRACE(make.name() + ": " + c.name());
  SitedAttention sited(make, c);
  AttentionProblem p(c, 1, sited.wants());
  p.run(sited);
  const auto& r = p;
  const AttentionTensors<double> real = p.tensors(sited.parameters());
  auto expect = [&](const std::vector<double>& got, const std::vector<double>& want,
                    const std::string& what) {
    EXPECT_LE(relative_error(got, want), tolerance) << what;
  };
  expect(AttentionProblem::dense(r.heads(p.y, c.heads, c.m, c.e)), reference(real), "y");

  const std::vector<double> dy = AttentionProblem::dense(r.heads(p.dy, c.heads, c.m, c.e));
  auto t = detail::complex_of(real);
  auto wanted = [&](auto& tensor) { return detail::complex_step(reference, t, tensor, dy); };
  std::vector<double> dq = wanted(t.q);
  if (p.wants.shared_qk) {
    const std::vector<double> dk = wanted(t.k);
    for (std::size_t i = 0; i < dq.size(); ++i) dq[i] += dk[i];
  } else {
    expect(AttentionProblem::dense(r.heads(p.dk, c.kv_heads, c.n, c.d)), wanted(t.k), "dk");
  }
  expect(AttentionProblem::dense(r.heads(p.dq, c.heads, c.m, c.d)), dq, "dq");
  expect(AttentionProblem::dense(r.heads(p.dv, c.kv_heads, c.n, c.e)), wanted(t.v), "dv");
  if (p.wants.input) expect({p.dx.begin(), p.dx.end()}, wanted(t.x), "dx");
  for (const Parameter& parameter : sited.parameters().all()) {
    if (parameter.constant) continue;
    expect({parameter.gradient.begin(), parameter.gradient.end()},
           wanted(t.parameters[parameter.name]), parameter.name);
  }
}

}  // namespace longspan::testing
