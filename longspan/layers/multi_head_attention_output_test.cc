// Multi-head attention around mechanisms that state another output than queries have.
#include <gtest/gtest.h>

#include "longspan/base/error.h"
#include "longspan/layers/multi_head_attention.h"
#include "longspan/testing/check_branch.h"
#include "longspan/testing/gated_retention.h"

namespace longspan {
namespace multi_head_attention_output_test {

using testing::Complex;
using testing::GatedRetention;
using testing::Tensor;
using testing::Weights;

// y_i = Σ_h v_i of head h: one head, whatever the number of queries'.
class HeadSum final : public Attention {
 public:
  HeadSum() : Attention({}) {}
  std::string_view name() const override { return "sum"; }
  Output output(const AttentionShape& s) const override { return {1, s.e}; }
  AttentionCost cost(const AttentionShape& s) const override {
    AttentionCost c;
    c.forward = flops(Kind::kAdd, s.batch * s.kv_heads * s.n * s.e);
    return c;
  }
  // Its streams state so many heads of output.
  template <std::size_t kHeads>
  static Mechanism mechanism() {
    Mechanism all = GatedRetention::mechanism();
    all.name = "sum";
    all.abilities = [](std::string_view /*options*/) { return Abilities{}; };
    all.streams = [](std::string_view /*options*/, const AttentionLayout& layout) {
      Streams streams = Streams::qkv(layout);
      streams.output_heads = kHeads;
      return streams;
    };
    all.make = [](std::string_view /*options*/,
                  const AttentionSite& /*site*/) -> std::unique_ptr<Attention> {
      return std::make_unique<HeadSum>();
    };
    return all;
  }

 private:
  void run_forward(const ForwardCall& call) const override {
    const ConstHeads& v = call.in.v;
    for (std::size_t b = 0; b < v.batch; ++b) {
      for (std::size_t i = 0; i < v.n; ++i) {
        const std::span<float> y = call.y.head(b, 0).row(i);
        std::ranges::fill(y, 0.0F);
        for (std::size_t h = 0; h < v.heads; ++h) {
          for (std::size_t c = 0; c < v.d; ++c) y[c] += v.head(b, h).row(i)[c];
          report(flops(Kind::kAdd, v.d));
        }
      }
    }
  }
  void run_backward(const BackwardCall& call) const override {
    const ConstHeads& v = call.in.v;
    for (std::size_t plane = 0; plane < v.batch * v.heads; ++plane) {
      const std::size_t b = plane / v.heads;
      const std::size_t h = plane % v.heads;
      for (std::size_t i = 0; i < v.n; ++i) {
        std::ranges::fill(call.grad.q.head(b, h).row(i), 0.0F);
        std::ranges::fill(call.grad.k.head(b, h).row(i), 0.0F);
        std::ranges::copy(call.dy.head(b, 0).row(i), call.grad.v.head(b, h).row(i).begin());
      }
    }
  }
};

TEST(Streams, StateAnOutputOfFewerHeads) {
  const Mechanism sum = HeadSum::mechanism<1>();
  const ExtraMechanism extra(sum);
  Parameters parameters;
  const MultiHeadAttention layer(parameters, "a",
                                 {.d_model = 12, .heads = 3, .kv_heads = 3, .attention = "sum"});
  parameters.allocate();
  EXPECT_EQ(parameters.find("a.out.weight")->shape(), (std::vector<std::size_t>{12, 4}));
  testing::BranchCase check;
  check.branch = &layer;
  check.parameters = &parameters;
  check.pass.batch = 2;
  check.pass.length = 5;
  check.d_model = 12;
  check.reference = [](const Weights& w) {
    const Tensor<Complex> all = testing::linear(w, "a.qkv", w.get<Complex>("x"));
    Tensor<Complex> one = testing::columns(all, 24, 4);
    for (std::size_t first : {28U, 32U}) one = testing::add(one, testing::columns(all, first, 4));
    return testing::linear(w, "a.out", one);
  };
  testing::expect_branch(check);
}

TEST(Streams, MustStateTheOutputThatTheMechanismGives) {
  const Mechanism sum = HeadSum::mechanism<2>();
  const ExtraMechanism extra(sum);
  Parameters parameters;
  const MultiHeadAttention layer(parameters, "a",
                                 {.d_model = 12, .heads = 3, .kv_heads = 3, .attention = "sum"});
  Pass pass;
  pass.batch = 2;
  pass.length = 5;
  try {
    testing::cost_of(layer, pass, 12);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[sum] the output is [2, 2, 5, 4]; need [2, 1, 5, 4]");
  }
}

TEST(ExtraMechanism, IsKnownWhileItLives) {
  {
    const ExtraMechanism extra(GatedRetention::mechanism());
    EXPECT_EQ(find_mechanism("retention:values=3").name, "retention");
    EXPECT_EQ(find_mechanism("flash").name, "flash");
  }
  EXPECT_THROW(find_mechanism("retention"), Error);
}

}  // namespace multi_head_attention_output_test
}  // namespace longspan
