#include "longspan/attention/pattern/longformer.h"

#include <gtest/gtest.h>

#include "longspan/attention/pattern/longformer_ref.h"
#include "longspan/base/config.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace longformer_test {

using testing::AttentionCase;
using testing::AttentionProblem;

void check(const std::string& options, const AttentionCase& c) {
  LongformerConfig config;
  parse_options("longformer", options, config);
  testing::Alone<LongformerAttention> attention(config);
  testing::check_reference("longformer:" + options, c, LongformerReference{*attention});
}

const char* const kOptions[] = {"window=4", "window=5,global=0", "window=2,global=3,dilation=1:2",
                                "window=0,global=40"};

TEST(Longformer, IsWhatItsDefinitionSays) {
  for (const char* options : kOptions) {
    for (const bool causal : {false, true}) {
      check(options, {.m = 1, .n = 1, .d = 2, .e = 2, .causal = causal});
      check(options,
            {.heads = 2, .kv_heads = 2, .m = 11, .n = 11, .d = 3, .e = 3, .causal = causal});
      check(
          options,
          {.batch = 3, .m = 9, .n = 9, .d = 2, .e = 2, .causal = causal, .key_lengths = {9, 0, 5}});
    }
  }
}

TEST(Longformer, AgreesOnEveryInstructionSet) {
  testing::for_each_target([] {
    AttentionCase c{.heads = 2, .kv_heads = 2, .m = 13, .n = 13, .d = 2, .e = 2};
    check("window=6,global=2", c);
    c.causal = true;
    check("window=6,global=2", c);
  });
}

TEST(Longformer, EqualsFullWhenTheWindowCoversTheSequence) {
  for (const bool causal : {false, true}) {
    const AttentionCase c{
        .heads = 2, .kv_heads = 2, .m = 130, .n = 130, .d = 16, .e = 16, .causal = causal};
    testing::SitedAttention sited("longformer:window=260,global=0", c);
    AttentionProblem p(c, 1, sited.wants());
    p.run(sited, false);
    EXPECT_LT(testing::relative_error({p.y.begin(), p.y.end()}, p.reference().forward()), 2e-6);
  }
}

// Tokens that the mask names, far from the window, alone, in pairs and at the ends.
class Marked {
 public:
  static constexpr std::size_t kTokens = 150, kWidth = 8, kBatch = 2;

  Marked(const std::string& options, bool causal)
      : c_{.batch = kBatch, .m = kTokens, .n = kTokens, .d = kWidth, .e = kWidth, .causal = causal},
        sited_("longformer:" + options, c_),
        p_(c_, 1, sited_.wants()),
        marks_(kBatch * kTokens, 0) {
    for (const std::size_t i : {0U, 70U, 71U, 149U, 150U + 3U, 150U + 64U, 150U + 66U}) {
      marks_[i] = 1;
    }
    in_ = p_.inputs();
    in_.mask.globals = marks_;
  }

  std::vector<float> forward(std::span<float> saved) {
    const AttentionCost cost = sited_->cost(shape_of(in_));
    Arena arena(cost.forward_scratch);
    std::vector<float> y(p_.dy.size());
    sited_->forward({in_, Heads(y.data(), kBatch, 1, kTokens, kWidth), saved, arena});
    EXPECT_EQ(arena.peak(), cost.forward_scratch);
    return y;
  }
  std::vector<double> reference() {
    auto t = p_.tensors(sited_.parameters());
    t.shape.globals = marks_;
    return LongformerReference{dynamic_cast<const LongformerAttention&>(*sited_)}(t);
  }
  // dx, of a loss Σ y·dy, and that loss.
  std::vector<float> backward() {
    const AttentionCost cost = sited_->cost(shape_of(in_));
    std::vector<float> saved(cost.saved), signals(cost.signals), dx(p_.x.size());
    std::vector<float> dq(p_.q.size()), dk(p_.k.size()), dv(p_.v.size());
    const std::vector<float> y = forward(saved);
    const auto heads = [](auto& x) { return Heads(x.data(), kBatch, 1, kTokens, kWidth); };
    const auto fixed = [](const auto& x) {
      return ConstHeads(x.data(), kBatch, 1, kTokens, kWidth);
    };
    Arena arena(cost.backward_scratch);
    sited_->backward({in_,
                      fixed(y),
                      fixed(p_.dy),
                      saved,
                      {.q = heads(dq),
                       .k = heads(dk),
                       .v = heads(dv),
                       .x = Matrix(dx.data(), kBatch * kTokens, kWidth)},
                      signals,
                      arena});
    EXPECT_EQ(arena.peak(), cost.backward_scratch);
    return dx;
  }
  double loss() {
    const std::vector<double> y = reference();
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * p_.dy[i];
    return sum;
  }
  std::vector<float>& x() { return p_.x; }

 private:
  AttentionCase c_;
  testing::SitedAttention sited_;
  AttentionProblem p_;
  std::vector<std::uint8_t> marks_;
  AttentionInputs in_;
};

TEST(Longformer, GlobalTokensMayBeAnywhere) {
  for (const char* options : {"window=20", "window=6,dilation=3"}) {
    for (const bool causal : {false, true}) {
      Marked marked(options, causal);
      const std::vector<float> y = marked.forward({});
      EXPECT_LT(testing::relative_error({y.begin(), y.end()}, marked.reference()), 2e-6)
          << options << causal;
    }
  }
}

TEST(Longformer, GradientsReachTheInputFromGlobalTokensAnywhere) {
  for (const bool causal : {false, true}) {
    Marked marked("window=20", causal);
    const std::vector<float> dx = marked.backward();
    for (std::size_t i = 5; i < dx.size(); i += 97) {
      const float before = marked.x()[i];
      marked.x()[i] = before + 1e-2F;
      const double above = marked.loss();
      marked.x()[i] = before - 1e-2F;
      const double below = marked.loss();
      marked.x()[i] = before;
      EXPECT_NEAR(dx[i], (above - below) / 2e-2, 1e-3) << i << causal;
    }
  }
}

TEST(Longformer, MeetsTheCommonChecks) {
  for (const char* options : {"longformer", "longformer:window=30,global=3,dilation=1:3"}) {
    testing::check_attention(options);
  }
}

TEST(Longformer, DecodesTheRowsOfTheWhole) {
  for (const char* options : {"window=20,global=0", "window=20,global=21", "window=7,global=200",
                              "window=6,global=5,dilation=3"}) {
    SCOPED_TRACE(options);
    testing::check_decode(std::string("longformer:") + options);
  }
}

TEST(Longformer, RefusesNonsense) {
  EXPECT_THROW(LongformerAttention::can({.dilation = "1:0"}), Error);
  EXPECT_THROW(LongformerAttention::can({.dilation = ""}), Error);
  testing::Alone<LongformerAttention> attention(LongformerConfig{});
  const std::vector<std::uint8_t> marks = {1, 0, 1};
  const AttentionShape last{.m = 1, .n = 3, .d = 4, .e = 4, .causal = true};
  EXPECT_NO_THROW(attention->check(last));
  AttentionShape marked = last;
  marked.globals = marks;
  EXPECT_THROW(attention->check(marked), Error);
  AttentionShape second = last;
  second.m = 3;  // of four: the first of them is no longer there to be projected
  second.n = 4;
  testing::Alone<LongformerAttention> two(LongformerConfig{.global = 2});
  EXPECT_THROW(two->check(second), Error);
  second.notes = true;
  EXPECT_NO_THROW(two->check(second));
}

}  // namespace longformer_test
}  // namespace longspan
