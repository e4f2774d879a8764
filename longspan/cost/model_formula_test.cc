// Whole models against the same formulas written once more as plain integer arithmetic, on random
// shapes with M ≠ N: every view, family and learning rule.
#include "longspan/cost/model_formula.h"

#include <gtest/gtest.h>

#include <random>

#include "longspan/cost/rules.h"

namespace longspan {
namespace model_formula_test {

using enum CostView;

constexpr CostPhase kF = CostPhase::kForward;
constexpr CostPhase kB = CostPhase::kBackward;
constexpr CostPhase kU = CostPhase::kUpdate;

struct Shape {
  Integer M, N, d, h, f, v, encoder_layers, decoder_layers;
};

SymbolValues values_of(const Shape& s) {
  return {{symbols::M, s.M},
          {symbols::N, s.N},
          {symbols::d, s.d},
          {symbols::h, s.h},
          {symbols::f, s.f},
          {symbols::v, s.v},
          {symbols::L, s.encoder_layers},
          {symbols::n_enc, s.encoder_layers},
          {symbols::n_dec, s.decoder_layers}};
}

struct Phases {
  CountValue F, B, U, embedding_update, last_forward;
  CountValue P;
  CountValue extra;  // of PEPITA as executed, last layer by difference
};

void add(CountValue& to, Integer times, Integer maccs, Integer other) {
  to.maccs += times * maccs;
  to.flops += times * (2 * maccs + other);
}

void plain_attention(CostView view, Integer times, Integer M, Integer N, const Shape& s,
                     Phases& to) {
  const Integer d = s.d;
  const Integer dd = d * d;
  const Integer pairs = M * N;
  if (view == kExecuted) {
    add(to.F, times, 2 * M * dd + 2 * N * dd + 2 * pairs * d, 5 * pairs * s.h + M * d);
    add(to.B, times, 2 * M * dd + 2 * N * dd + 4 * pairs * d, 4 * pairs * s.h + M * d);
  } else {
    add(to.F, times, 2 * M * dd + 2 * N * dd + 2 * pairs * d, 6 * pairs * s.h);
    const bool printed = view == kPrinted;
    const Integer slice = printed ? M * N * M * s.h : M * N * N * s.h;
    const Integer jacobian = printed ? 0 : N * N * M * s.h;
    add(to.B, times, 2 * M * dd + 2 * N * dd + 4 * pairs * d + slice, pairs * s.h + jacobian);
  }
  add(to.U, times, 2 * M * dd + 2 * N * dd, 0);
  add(to.extra, times, 0, 2 * M * d + 2 * N * d);
}

void plain_rest(CostView view, Integer blocks, Integer norms, Integer M, const Shape& s,
                Phases& to) {
  const Integer d = s.d;
  const Integer f = s.f;
  const bool executed = view == kExecuted;
  add(to.F, blocks, 2 * M * d * f, 9 * M * f + M * d);
  add(to.B, blocks, 2 * M * d * f, (executed ? 14 : 13) * M * f);
  add(to.U, blocks, 2 * M * d * f, executed ? M * f + M * d : 0);
  add(to.extra, blocks, 0, M * f + M * d);
  const Integer all = blocks * norms;
  add(to.F, all, 0, executed ? M * (8 * d + 5) : 9 * M * d);
  add(to.B, all, executed ? 0 : M * d * d, executed ? M * (9 * d + 2) : 9 * M * d * d + 2 * M * d);
  add(to.U, all, executed ? 0 : M * d, executed ? 3 * M * d : M * d);
  add(to.extra, all, 0, M * d);
}

void plain_embedding(CostView view, Integer M, const Shape& s, Phases& to) {
  const Integer product = M * s.v * s.d;
  if (view == kExecuted) {
    add(to.F, 1, 0, M * s.d);
    add(to.U, 1, 0, M * s.d);
    add(to.extra, 2, product, 0);
    add(to.extra, 1, 0, M * s.d);
  } else {
    add(to.F, 1, product, 0);
    add(to.embedding_update, 1, product, 0);
  }
}

void plain_softmax(CostView view, Integer M, const Shape& s, Phases& to) {
  add(to.last_forward, 1, M * s.d * s.v, 5 * M * s.v);
  add(to.F, 1, M * s.d * s.v, 5 * M * s.v);
  add(to.B, 1, M * s.d * s.v, view == kExecuted ? M : 0);
  add(to.U, 1, M * s.d * s.v, 0);
  add(to.extra, 1, 0, M + M * s.v);
}

Phases plain(CostView view, ModelFamily family, const Shape& s) {
  Phases to;
  if (family != ModelFamily::kEncoderDecoder) {
    plain_embedding(view, s.N, s, to);
    plain_attention(view, s.encoder_layers, s.N, s.N, s, to);
    plain_rest(view, s.encoder_layers, 2, s.N, s, to);
    plain_softmax(view, s.N, s, to);
  } else {
    plain_embedding(view, s.N, s, to);
    plain_embedding(view, s.M, s, to);
    plain_attention(view, s.encoder_layers, s.N, s.N, s, to);
    plain_attention(view, s.decoder_layers, s.M, s.M, s, to);
    plain_attention(view, s.decoder_layers, s.M, s.N, s, to);
    plain_rest(view, s.encoder_layers, 2, s.N, s, to);
    plain_rest(view, s.decoder_layers, 3, s.M, s, to);
    plain_softmax(view, s.M, s, to);
    add(to.P, view == kExecuted ? 1 : 2, s.N * s.M * s.v, 0);
    add(to.P, 1, 0, 6 * s.N * s.M);
  }
  if (view != kExecuted) to.extra = {};
  return to;
}

CountValue plus(std::initializer_list<std::pair<int, CountValue>> parts) {
  CountValue sum;
  for (const auto& [times, part] : parts) {
    sum.maccs += times * part.maccs;
    sum.flops += times * part.flops;
  }
  return sum;
}

TEST(ModelFormula, AgreesWithPlainArithmeticOnRandomShapes) {
  std::mt19937_64 random(5);
  const auto pick = [&](int low, int high) {
    return Integer{std::uniform_int_distribution<int>(low, high)(random)};
  };
  for (const CostView view : kCostViews) {
    for (const ModelFamily family :
         {ModelFamily::kEncoder, ModelFamily::kDecoder, ModelFamily::kEncoderDecoder}) {
      const ModelFormula model = model_formula({.view = view, .family = family});
      std::array<CountFormula, 3> rules;
      for (std::size_t i = 0; i < 3; ++i) {
        rules[i] = rule_formula(model, kPaperRules[i]).total();
      }
      const CountFormula short_pass =
          rule_formula(model, LearningRule::kMempepita, {.last_layer = LastLayer::kStandardError})
              .phase(kF);
      for (int round = 0; round < 150; ++round) {
        const Integer heads = pick(1, 16);
        const Shape s{pick(1, 5000),  pick(1, 5000),   heads * pick(1, 128), heads,
                      pick(1, 20000), pick(2, 250000), pick(1, 100),         pick(1, 100)};
        const SymbolValues at = values_of(s);
        const Phases is = plain(view, family, s);
        EXPECT_EQ(model.total(kF).evaluate(at), is.F);
        EXPECT_EQ(model.total(kB).evaluate(at), is.B);
        EXPECT_EQ(model.total(kU).evaluate(at), plus({{1, is.U}, {1, is.embedding_update}}));
        EXPECT_EQ(rules[0].evaluate(at), plus({{1, is.F}, {1, is.B}, {1, is.U}}));
        const CountValue rest =
            plus({{1, is.U}, {1, is.embedding_update}, {1, is.P}, {1, is.extra}});
        EXPECT_EQ(rules[1].evaluate(at), plus({{2, is.F}, {1, rest}}));
        EXPECT_EQ(rules[2].evaluate(at), plus({{3, is.F}, {1, rest}}));
        EXPECT_EQ(short_pass.evaluate(at), plus({{3, is.F}, {-2, is.last_forward}}));
      }
    }
  }
}

}  // namespace model_formula_test
}  // namespace longspan
