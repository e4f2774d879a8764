// The executed counts, written out as integers: what an efficient engine does for M queries, N
// keys, width d, h heads, hidden width f and vocabulary v. 1 MACC = 2 FLOPs; a reduction of n terms
// costs n; GEMMs add in place; the 1/√d_k scale is applied to Q; norms keep x̂ and 1/σ;
// embedding is a look-up; the target is an index. These are stated here apart from the code that
// predicts and the meter that counts; the other tests show that those two agree.
#include <gtest/gtest.h>

#include <memory>

#include "longspan/base/meter.h"
#include "longspan/layers/embedding.h"
#include "longspan/layers/feed_forward.h"
#include "longspan/layers/head.h"
#include "longspan/layers/multi_head_attention.h"
#include "longspan/layers/residual.h"
#include "longspan/testing/dry_branch.h"

namespace longspan {
namespace layer_cost_test {

using Count = std::uint64_t;
using testing::cost_of;

struct Sizes {
  Count batch, m, n, d, h, f, v;
};

std::vector<Sizes> sizes() {
  return {{1, 1, 1, 1, 1, 1, 1},
          {1, 128, 128, 64, 4, 256, 1000},
          {2, 5, 7, 12, 3, 19, 13},
          {3, 11, 4, 6, 2, 7, 17},
          {1, 3, 101, 10, 5, 4, 2}};
}

Pass pass_of(const Sizes& s) {
  Pass pass;
  pass.batch = s.batch;
  pass.length = s.m;
  pass.context_length = s.n;
  return pass;
}

void expect_work(const Work& work, Count maccs, Count other, const char* what) {
  EXPECT_EQ(work.maccs, maccs) << what;
  EXPECT_EQ(work.other_flops(), other) << what;
}

// Walked with addresses alone.
template <class Step>
CostTable walked(const Step& step) {
  const Dry dry;
  Arena arena = Arena::dry();
  Meter meter;
  const Meter::Use use(meter);
  step(arena);
  return longspan::cost_of(meter);
}

Matrix addresses(std::size_t rows, std::size_t cols) {
  return {Dry::memory<float>(rows * cols).data(), rows, cols};
}

Cost embedding_cost(const Embedding& layer, const Sizes& s) {
  const Pass pass = pass_of(s);
  const TokenInput tokens{Dry::memory<const std::int32_t>(pass.rows()), {}, 0};
  return walked([&](Arena& arena) {
    EmbeddingSaved saved;
    layer.backward(pass, tokens, saved, layer.embed(pass, tokens, &saved, arena), arena);
  })["embedding"];
}

CostTable residual_cost(const Residual& layer, const Pass& pass, std::size_t d) {
  const Matrix x = addresses(pass.rows(), d);
  return walked([&](Arena& arena) {
    ResidualSaved saved;
    layer.forward(pass, x, x, &saved, {}, arena);
    layer.backward(pass, saved, x, {}, arena);
  });
}

TEST(Executed, Embedding) {
  for (const Sizes& s : sizes()) {
    Parameters parameters;
    EmbeddingConfig config{.vocab = s.v, .d_model = s.d, .max_length = s.m};
    config.positions = PositionKind::kSinusoidal;
    const Embedding fixed(parameters, "fixed", config);
    const Count M = s.batch * s.m;
    expect_work(embedding_cost(fixed, s).forward, 0, M * s.d, "forward");
    expect_work(embedding_cost(fixed, s).backward, 0, 0, "backward");
    expect_work(embedding_cost(fixed, s).update, 0, M * s.d, "update");
    config.positions = PositionKind::kLearned;
    const Embedding learned(parameters, "learned", config);
    expect_work(embedding_cost(learned, s).forward, 0, M * s.d, "forward");
    expect_work(embedding_cost(learned, s).update, 0, 2 * M * s.d, "update, learned positions");
  }
}

TEST(Executed, MultiHeadAttention) {
  for (const Sizes& s : sizes()) {
    for (const bool cross : {false, true}) {
      Parameters parameters;
      const MultiHeadAttention layer(parameters, "a",
                                     {.d_model = s.d,
                                      .heads = s.h,
                                      .kv_heads = s.h,
                                      .cross = cross,
                                      .bias = false,
                                      .output_bias = false,
                                      .attention = "full"});
      const Count n = cross ? s.n : s.m;
      const Count M = s.batch * s.m;
      const Count N = s.batch * n;
      const Count MN = s.batch * s.m * n;  // pairs
      const Count d = s.d;
      const Cost cost = cost_of(layer, pass_of(s), s.d);
      expect_work(cost.forward, 2 * M * d * d + 2 * N * d * d + 2 * MN * d, 5 * MN * s.h + M * d,
                  "forward");
      expect_work(cost.backward, 2 * M * d * d + 2 * N * d * d + 4 * MN * d, 4 * MN * s.h + M * d,
                  "backward");
      expect_work(cost.update, 2 * M * d * d + 2 * N * d * d, 0, "update");
    }
  }
}

TEST(Executed, MultiHeadAttentionBiases) {
  for (const Sizes& s : sizes()) {
    Parameters parameters;
    const MultiHeadAttentionConfig config{
        .d_model = s.d, .heads = s.h, .kv_heads = s.h, .cross = true, .attention = "full"};
    MultiHeadAttentionConfig plain = config;
    plain.bias = plain.output_bias = false;
    const MultiHeadAttention with(parameters, "with", config);
    const MultiHeadAttention without(parameters, "without", plain);
    const Count biases = 2 * s.batch * s.m * s.d + 2 * s.batch * s.n * s.d;
    const Cost a = cost_of(with, pass_of(s), s.d);
    const Cost b = cost_of(without, pass_of(s), s.d);
    EXPECT_EQ(a.forward.flops(), b.forward.flops() + biases);
    EXPECT_EQ(a.backward.flops(), b.backward.flops());
    EXPECT_EQ(a.update.flops(), b.update.flops() + biases);
  }
}

// K and V of g heads for h: 2Nd² → 2Nd²·g/h.
TEST(Executed, GroupedQueries) {
  Parameters parameters;
  const MultiHeadAttention layer(parameters, "a",
                                 {.d_model = 24,
                                  .heads = 6,
                                  .kv_heads = 2,
                                  .cross = true,
                                  .bias = false,
                                  .attention = "full"});
  Pass pass;
  pass.batch = 1;
  pass.length = 5;
  pass.context_length = 9;
  const Count pairs = 5 * 9;
  const Count projections = 2 * 5 * 24 * 24 + 2 * 9 * 24 * 24 * 2 / 6;
  EXPECT_EQ(cost_of(layer, pass, 24).forward.maccs, projections + 2 * pairs * 24);
  EXPECT_EQ(cost_of(layer, pass, 24).backward.maccs, projections + 4 * pairs * 24);
  EXPECT_EQ(cost_of(layer, pass, 24).update.maccs, projections);
}

TEST(Executed, FeedForward) {
  for (const Sizes& s : sizes()) {
    Parameters parameters;
    const FeedForward layer(parameters, "f",
                            {.d_model = s.d, .d_ff = s.f, .activation = Activation::kGeluTanh});
    const Count M = s.batch * s.m;
    const Cost cost = cost_of(layer, pass_of(s), s.d);
    expect_work(cost.forward, 2 * M * s.d * s.f, 9 * M * s.f + M * s.d, "forward");
    expect_work(cost.backward, 2 * M * s.d * s.f, 14 * M * s.f, "backward");
    expect_work(cost.update, 2 * M * s.d * s.f, M * s.f + M * s.d, "update");
  }
}

TEST(Executed, GatedFeedForward) {
  for (const Sizes& s : sizes()) {
    Parameters parameters;
    const FeedForward layer(parameters, "f",
                            {.d_model = s.d,
                             .d_ff = s.f,
                             .activation = Activation::kSilu,
                             .gated = true,
                             .bias = false});
    const Count products = 3 * s.batch * s.m * s.d * s.f;
    const Cost cost = cost_of(layer, pass_of(s), s.d);
    EXPECT_EQ(cost.forward.maccs, products);
    EXPECT_EQ(cost.backward.maccs, products);
    expect_work(cost.update, products, 0, "update");
  }
}

TEST(Executed, AddAndNorm) {
  for (const Sizes& s : sizes()) {
    for (const Wiring wiring : {Wiring::kPostNorm, Wiring::kPreNorm}) {
      Parameters parameters;
      auto branch = std::make_unique<FeedForward>(parameters, "f",
                                                  FeedForwardConfig{.d_model = s.d, .d_ff = s.f});
      auto norm = std::make_unique<Norm>(parameters, "n", NormKind::kLayer, s.d, 1e-5F);
      const Residual layer(std::move(branch), {std::move(norm)}, wiring, s.d, 0.1F);
      const Count M = s.batch * s.m;
      const Cost cost = residual_cost(layer, pass_of(s), s.d)["add & norm"];
      expect_work(cost.forward, 0, M * (8 * s.d + 5), "forward");
      expect_work(cost.backward, 0, M * (9 * s.d + 2), "backward");
      expect_work(cost.update, 0, 3 * M * s.d, "update");
      Pass training = pass_of(s);
      training.training = true;
      const Cost dropped = residual_cost(layer, training, s.d)["add & norm"];
      EXPECT_EQ(dropped.forward.flops(), M * (9 * s.d + 5)) << "with dropout";
      EXPECT_EQ(dropped.backward.flops(), M * (10 * s.d + 2)) << "with dropout";
    }
  }
}

// Reversible: what backward does and, before it, forward once more.
TEST(Executed, ReversibleComputesForwardTwice) {
  for (const Sizes& s : sizes()) {
    Parameters parameters;
    auto branch = std::make_unique<FeedForward>(parameters, "f",
                                                FeedForwardConfig{.d_model = s.d, .d_ff = s.f});
    auto norm = std::make_unique<Norm>(parameters, "n", NormKind::kLayer, s.d, 1e-5F);
    const Residual layer(std::move(branch), {std::move(norm)}, Wiring::kReversible, s.d, 0.0F);
    const Count M = s.batch * s.m;
    const Pass pass = pass_of(s);
    const Matrix x = addresses(pass.rows(), s.d);
    CostTable table = walked([&](Arena& arena) {
      layer.add_to(pass, x, x, {}, arena);
      layer.undo(pass, {x, x, x, x}, {}, arena);
    });
    const Cost& branch_cost = table["ffn"];
    expect_work(branch_cost.forward, 2 * M * s.d * s.f, 9 * M * s.f + M * s.d, "forward");
    expect_work(branch_cost.backward, 4 * M * s.d * s.f, 23 * M * s.f + M * s.d, "backward");
    expect_work(branch_cost.update, 2 * M * s.d * s.f, M * s.f + M * s.d, "update");
    expect_work(table["add & norm"].backward, 0, M * (17 * s.d + 7), "add & norm");
  }
}

// Without its cross-entropy, which the model adds: 5Mv forward, M backward.
TEST(Executed, SoftmaxLayer) {
  for (const Sizes& s : sizes()) {
    Parameters parameters;
    const Head head(parameters, "h", {.d_model = s.d, .outputs = s.v}, nullptr);
    const Count M = s.batch * s.m;
    const Pass pass = pass_of(s);
    const Matrix x = addresses(pass.rows(), s.d);
    CostTable table = walked([&](Arena& arena) {
      head.backward(pass, head.forward(pass, x, /*saves=*/true, arena), x, arena);
    });
    const Cost& cost = table["softmax layer"];
    expect_work(cost.forward, M * s.d * s.v, 0, "forward");
    expect_work(cost.backward, M * s.d * s.v, 0, "backward");
    expect_work(cost.update, M * s.d * s.v, 0, "update");
  }
}

}  // namespace layer_cost_test
}  // namespace longspan
