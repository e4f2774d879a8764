#include "longspan/attention/position/transformer_xl.h"

#include <gtest/gtest.h>

#include <map>

#include "longspan/attention/position/transformer_xl_ref.h"
#include "longspan/base/error.h"
#include "longspan/kernels/gemm/gemm.h"
#include "longspan/kernels/rows/draw_normal.h"
#include "longspan/testing/check_attention.h"
#include "longspan/testing/check_reference.h"
#include "longspan/testing/for_each_target.h"

namespace longspan {
namespace transformer_xl_test {

using testing::AttentionCase;
using testing::AttentionProblem;

void check(const AttentionCase& c) {
  testing::check_reference("transformer-xl", c, TransformerXlReference());
}

TEST(TransformerXl, IsWhatItsDefinitionSays) {
  for (const bool causal : {true, false}) {
    check({.m = 1, .n = 1, .d = 2, .e = 2, .causal = causal});
    check({.heads = 2, .kv_heads = 2, .m = 19, .n = 19, .d = 3, .e = 3, .causal = causal});
    check({.batch = 3,
           .m = 13,
           .n = 13,
           .d = 4,
           .e = 4,
           .causal = causal,
           .key_lengths = {13, 0, 7}});
    check({.m = 67, .n = 67, .d = 2, .e = 2, .causal = causal});
  }
}

TEST(TransformerXl, AgreesOnEveryInstructionSet) {
  testing::for_each_target(
      [] { check({.heads = 2, .kv_heads = 2, .m = 21, .n = 21, .d = 5, .e = 5, .causal = true}); });
}

TEST(TransformerXl, MeetsTheCommonChecks) { testing::check_attention("transformer-xl"); }

// A layer's projections and the mechanism, on one batch of tokens with a history.
class Segments {
 public:
  static constexpr std::size_t kHeads = 2, kHead = 8, kWidth = kHeads * kHead, kBatch = 2;

  Segments()
      : alone_(TransformerXlConfig{},
               {.d_model = kWidth,
                .heads = kHeads,
                .kv_heads = kHeads,
                .d_head = kHead,
                .max_length = 200,
                .deviation = 0.3F},
               /*history=*/true),
        attention_(*alone_),
        parameters_(alone_.parameters()) {
    parameters_.allocate();
    weight_ = parameters_.find("attention.qkv.weight");
    bias_ = parameters_.find("attention.qkv.bias");
    bias_->initializer = Initializer::normal(0.3F);
    parameters_.initialize(7, draw_normal);
  }

  // Tokens [first, first + count) of each sequence of x [kBatch·n, kWidth].
  static std::vector<float> cut(const std::vector<float>& x, std::size_t first, std::size_t count) {
    const std::size_t n = x.size() / (kBatch * kWidth);
    std::vector<float> out;
    for (std::size_t b = 0; b < kBatch; ++b) {
      const auto from = x.begin() + static_cast<std::ptrdiff_t>((b * n + first) * kWidth);
      out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(count * kWidth));
    }
    return out;
  }

  // y; with `dy` also the gradients of all parameters.
  std::vector<float> run(const std::vector<float>& x, const std::vector<float>& history,
                         const std::vector<float>& dy = {}) {
    const std::size_t rows = x.size() / kWidth;
    std::vector<float> projected(rows * 3 * kWidth), gradient(projected), y(x.size());
    linear_forward({x.data(), rows, kWidth}, weight_->matrix(), bias_->value.data(),
                   {projected.data(), rows, 3 * kWidth});
    const auto part = [&](std::vector<float>& from, std::size_t i) {
      return Heads::from_columns(
          Matrix(from.data(), rows, 3 * kWidth).slice_cols(i * kWidth, kWidth), kBatch, kHeads);
    };
    AttentionInputs in;
    in.q = part(projected, 0);
    in.k = part(projected, 1);
    in.v = part(projected, 2);
    in.mask.causal = true;
    in.history = ConstMatrix(history.data(), history.size() / kWidth, kWidth);
    const AttentionCost cost = attention_.cost(shape_of(in));
    Arena arena(std::max(cost.forward_scratch, cost.backward_scratch));
    std::vector<float> saved(cost.saved), signals(cost.signals);
    const Heads out = Heads::from_columns(Matrix(y.data(), rows, kWidth), kBatch, kHeads);
    attention_.forward({in, out, saved, arena});
    if (dy.empty()) return y;
    std::ranges::fill(parameters_.gradients(), 0.0F);
    attention_.backward(
        {in,
         out,
         ConstHeads::from_columns(ConstMatrix(dy.data(), rows, kWidth), kBatch, kHeads),
         saved,
         {.q = part(gradient, 0), .k = part(gradient, 1), .v = part(gradient, 2)},
         signals,
         arena});
    EXPECT_EQ(arena.peak(), std::max(cost.forward_scratch, cost.backward_scratch));
    attention_.accumulate(in, saved, signals);
    return y;
  }
  // y of the last `count` tokens of x, after `history`, with notes on the others.
  std::vector<float> decode(const std::vector<float>& x, const std::vector<float>& history,
                            std::size_t count, std::vector<float>& notes) {
    const std::size_t n = x.size() / (kBatch * kWidth);
    std::vector<float> projected(kBatch * n * 3 * kWidth), y(kBatch * count * kWidth);
    const Matrix all(projected.data(), kBatch * n, 3 * kWidth);
    linear_forward({x.data(), kBatch * n, kWidth}, weight_->matrix(), bias_->value.data(), all);
    const auto part = [&](std::size_t i) {
      return Heads::from_columns(all.slice_cols(i * kWidth, kWidth), kBatch, kHeads);
    };
    AttentionInputs in;
    in.q = part(0);
    in.q.data += (n - count) * in.q.row_stride;
    in.q.n = count;
    in.k = part(1);
    in.v = part(2);
    in.mask.causal = true;
    in.history = ConstMatrix(history.data(), history.size() / kWidth, kWidth);
    AttentionShape full = shape_of(in);
    full.n = kCapacity;
    notes.resize(attention_.note_floats(full));
    in.notes = notes;
    Arena arena(attention_.cost(shape_of(in)).forward_scratch);
    attention_.forward(
        {in,
         Heads::from_columns(Matrix(y.data(), kBatch * count, kWidth), kBatch, kHeads),
         {},
         arena});
    return y;
  }
  static constexpr std::size_t kCapacity = 80;
  Parameters& parameters() { return parameters_; }

 private:
  testing::Alone<TransformerXlAttention> alone_;
  const TransformerXlAttention& attention_;
  Parameters& parameters_;
  Parameter* weight_ = nullptr;
  Parameter* bias_ = nullptr;
};

std::vector<float> normals(std::size_t count, RandomKey key) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = random_normal(key, i);
  return x;
}

// A history that holds the whole past: segment by segment is the same as all at once.
TEST(TransformerXl, SegmentsWithTheirPastAreTheWhole) {
  Segments layer;
  constexpr std::size_t kTokens = 150;
  const std::vector<float> x = normals(Segments::kBatch * kTokens * Segments::kWidth, 3);
  const std::vector<float> whole = layer.run(x, {});
  std::size_t first = 0;
  for (const std::size_t count : {1U, 40U, 64U, 45U}) {
    const std::vector<float> y =
        layer.run(Segments::cut(x, first, count), Segments::cut(x, 0, first));
    const std::vector<float> want = Segments::cut(whole, first, count);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], want[i], 3e-6) << first;
    first += count;
  }
}

// Token by token behind a history.
TEST(TransformerXl, DecodesBehindAHistory) {
  Segments layer;
  constexpr std::size_t kPast = 13;
  const std::vector<float> x =
      normals(Segments::kBatch * (kPast + Segments::kCapacity) * Segments::kWidth, 3);
  const std::vector<float> whole = layer.run(x, {});
  std::vector<float> notes;
  std::size_t done = 0;
  for (const std::size_t last : {1U, 2U, 41U, 42U, 79U, 80U}) {
    const std::vector<float> y =
        layer.decode(Segments::cut(x, kPast, last), Segments::cut(x, 0, kPast), last - done, notes);
    const std::vector<float> want = Segments::cut(whole, kPast + done, last - done);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], want[i], 3e-6) << last;
    done = last;
  }
}

// With a history: central differences along the mechanism's own parameters.
TEST(TransformerXl, ItsParametersLearnFromTheHistory) {
  Segments layer;
  const std::vector<float> x = normals(Segments::kBatch * 9 * Segments::kWidth, 3);
  const std::vector<float> dy = normals(Segments::kBatch * 4 * Segments::kWidth, 4);
  const std::vector<float> now = Segments::cut(x, 5, 4);
  const std::vector<float> past = Segments::cut(x, 0, 5);
  layer.run(now, past, dy);
  std::map<std::string, std::vector<float>> gradients;
  for (const Parameter& p : layer.parameters().all()) {
    gradients[p.name] = {p.gradient.begin(), p.gradient.end()};
  }
  const auto loss = [&] {
    const std::vector<float> y = layer.run(now, past);
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * dy[i];
    return sum;
  };
  for (const char* name :
       {"attention.relative.weight", "attention.relative.u", "attention.relative.v"}) {
    Parameter& p = *layer.parameters().find(name);
    for (std::size_t i = 0; i < p.size(); i += 1 + p.size() / 7) {
      const float before = p.value[i];
      p.value[i] = before + 0.01F;
      const double above = loss();
      p.value[i] = before - 0.01F;
      const double below = loss();
      p.value[i] = before;
      EXPECT_NEAR(gradients[name][i], (above - below) / 0.02, 5e-3) << name << " " << i;
    }
  }
}

TEST(TransformerXl, RefusesAHistoryWithoutProjections) {
  testing::Alone<TransformerXlAttention> attention(TransformerXlConfig{});
  EXPECT_NO_THROW(attention->check({.m = 3, .n = 3, .d = 4, .e = 4}));
  EXPECT_THROW(attention->check({.m = 3, .n = 3, .d = 4, .e = 4, .history_length = 2}), Error);
}

}  // namespace transformer_xl_test
}  // namespace longspan
