#include "longspan/layers/multi_head_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longspan/attention/registry.h"
#include "longspan/base/error.h"
#include "longspan/testing/check_branch.h"

namespace longspan {
namespace multi_head_attention_test {

using testing::AttentionSetting;
using testing::Complex;
using testing::Tensor;
using testing::Weights;

struct Case {
  std::string name;
  MultiHeadAttentionConfig config;
  std::size_t batch = 1;
  std::size_t length = 1;
  std::size_t context_length = 0;
  std::vector<std::int32_t> lengths;
  bool rotary = false;
  bool interleaved = false;
  std::size_t turning = 0;  // channels; 0: all
};

constexpr float kBase = 40.0F;

Tensor<Complex> reference(const Case& c, const Pass& pass, const Weights& w) {
  const MultiHeadAttentionConfig& config = c.config;
  const std::size_t width =
      config.head_width == 0 ? config.d_model / config.heads : config.head_width;
  const std::size_t d = width * config.heads;
  const std::size_t kv = width * config.kv_heads;
  AttentionSetting a;
  a.batch = c.batch;
  a.heads = config.heads;
  a.kv_heads = config.kv_heads;
  a.causal = config.causal;
  a.key_lengths = c.lengths;
  if (pass.training) a.dropout = {config.dropout, derive(pass.key, "attention")};
  const Tensor<Complex> x = w.get<Complex>("x");
  Tensor<Complex> q;
  Tensor<Complex> pair;
  if (config.cross) {
    q = testing::linear(w, "a.q", x);
    pair = testing::linear(w, "a.kv", w.get<Complex>("context"));
  } else {
    const Tensor<Complex> all = testing::linear(w, "a.qkv", x);
    q = testing::columns(all, 0, d);
    pair = testing::columns(all, d, 2 * kv);
  }
  Tensor<Complex> k = testing::columns(pair, 0, kv);
  const Tensor<Complex> v = testing::columns(pair, kv, kv);
  if (config.query_norm != QueryNorm::kNone && !config.cross) {
    const bool whole = config.query_norm == QueryNorm::kWhole;
    const std::string kind(name_of(config.norm));
    const auto epsilon = static_cast<double>(config.norm_epsilon);
    q = testing::norm_parts(w, "a.query_norm", kind, epsilon, q, whole ? d : width);
    k = testing::norm_parts(w, "a.key_norm", kind, epsilon, k, whole ? kv : width);
  }
  if (c.rotary) {
    const std::size_t turning = c.turning == 0 ? width : c.turning;
    std::vector<double> f;
    for (std::size_t i = 0; i < turning / 2; ++i) {
      f.push_back(std::pow(kBase, -2.0 * static_cast<double>(i) / static_cast<double>(turning)));
    }
    testing::rotate_heads(q, c.length, config.heads, f, 1.0, c.interleaved);
    testing::rotate_heads(k, c.length, config.kv_heads, f, 1.0, c.interleaved);
  }
  return testing::linear(w, "a.out", testing::attend(a, q, k, v));
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* mechanism : {"full", "flash"}) {
    const auto add = [&](const std::string& name, Case c) {
      c.name = std::string(mechanism) + "_" + name;
      c.config.attention = mechanism;
      all.push_back(c);
    };
    MultiHeadAttentionConfig plain{.d_model = 12, .heads = 3, .kv_heads = 3};
    MultiHeadAttentionConfig causal = plain;
    causal.causal = true;
    MultiHeadAttentionConfig grouped{
        .d_model = 16, .heads = 4, .kv_heads = 2, .causal = true, .bias = false};
    MultiHeadAttentionConfig cross = plain;
    cross.cross = true;
    MultiHeadAttentionConfig cross_grouped = grouped;
    cross_grouped.causal = false;
    cross_grouped.cross = true;
    MultiHeadAttentionConfig dropped = causal;
    dropped.dropout = 0.3F;
    add("one", {.config = {.d_model = 1}, .batch = 1, .length = 1});
    add("self", {.config = plain, .batch = 2, .length = 7});
    add("padded", {.config = plain, .batch = 3, .length = 5, .lengths = {5, 2, 0}});
    add("causal", {.config = causal, .batch = 2, .length = 17});
    add("grouped", {.config = grouped, .batch = 2, .length = 6});
    add("rotary_halves", {.config = grouped, .batch = 2, .length = 6, .rotary = true});
    add("rotary_interleaved",
        {.config = grouped, .batch = 1, .length = 5, .rotary = true, .interleaved = true});
    add("cross_wide", {.config = cross, .batch = 2, .length = 3, .context_length = 11});
    add("cross_tall",
        {.config = cross_grouped, .batch = 2, .length = 9, .context_length = 4, .lengths = {4, 1}});
    add("dropout", {.config = dropped, .batch = 2, .length = 9});
    MultiHeadAttentionConfig wide = grouped;
    wide.head_width = 6;
    wide.bias = true;
    wide.output_bias = false;
    MultiHeadAttentionConfig narrow = cross;
    narrow.head_width = 3;
    narrow.bias = false;
    MultiHeadAttentionConfig each = wide;
    each.query_norm = QueryNorm::kHead;
    each.norm_epsilon = 0.05F;
    MultiHeadAttentionConfig whole = grouped;
    whole.query_norm = QueryNorm::kWhole;
    whole.norm = NormKind::kLayer;
    MultiHeadAttentionConfig plain_norm = whole;
    plain_norm.norm_learns = {.scale = false, .shift = true};
    plain_norm.query_norm = QueryNorm::kHead;
    add("wide_heads", {.config = wide, .batch = 2, .length = 5});
    add("narrow_heads", {.config = narrow, .batch = 2, .length = 3, .context_length = 4});
    add("query_norm",
        {.config = each, .batch = 3, .length = 4, .lengths = {4, 2, 1}, .rotary = true});
    add("query_norm_whole", {.config = whole, .batch = 2, .length = 5, .rotary = true});
    add("query_norm_shifts", {.config = plain_norm, .batch = 2, .length = 5, .rotary = true});
    add("rotary_part", {.config = grouped, .batch = 2, .length = 6, .rotary = true, .turning = 2});
    add("rotary_part_interleaved", {.config = wide,
                                    .batch = 1,
                                    .length = 5,
                                    .rotary = true,
                                    .interleaved = true,
                                    .turning = 4});
  }
  return all;
}

class MultiHeadAttentionCases : public ::testing::TestWithParam<Case> {};

TEST_P(MultiHeadAttentionCases, KeepsItsPromises) {
  Case c = GetParam();
  if (c.rotary) {
    const std::size_t width =
        c.config.head_width == 0 ? c.config.d_model / c.config.heads : c.config.head_width;
    const auto table = std::make_shared<RotaryTable>(
        RotaryConfig{.base = kBase, .interleaved = c.interleaved, .width = c.turning}, 20, width);
    table->allocate();
    c.config.rotary = table;
  }
  Parameters parameters;
  const MultiHeadAttention layer(parameters, "a", c.config);
  parameters.allocate();
  testing::BranchCase check;
  check.branch = &layer;
  check.parameters = &parameters;
  check.pass.batch = c.batch;
  check.pass.length = c.length;
  check.pass.context_length = c.context_length;
  (c.config.cross ? check.pass.context_lengths : check.pass.lengths) = c.lengths;
  check.pass.training = c.config.dropout > 0.0F;
  check.pass.key = 77;
  check.d_model = c.config.d_model;
  check.reference = [&](const Weights& w) { return reference(c, check.pass, w); };
  testing::expect_branch(check);
}

INSTANTIATE_TEST_SUITE_P(Cases, MultiHeadAttentionCases, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

std::string error_of(const MultiHeadAttentionConfig& config) {
  Parameters parameters;
  try {
    const MultiHeadAttention layer(parameters, "a", config);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(MultiHeadAttention, RefusesWhatItCannotBuild) {
  EXPECT_EQ(error_of({.d_model = 10, .heads = 3, .kv_heads = 3}),
            "[attention] width 10 does not divide into 3 heads; need a multiple, or head_width");
  EXPECT_EQ(error_of({.d_model = 12, .heads = 6, .kv_heads = 4}),
            "[attention] 6 heads cannot share 4 key-value heads; need a divisor");
  EXPECT_NE(error_of({.d_model = 4, .attention = "flsh"}).find("did you mean 'flash'?"),
            std::string::npos);
}

TEST(RotaryTable, NeedsAnEvenWidthAndEnoughPositions) {
  EXPECT_THROW(RotaryTable(RotaryConfig{}, 4, 3), Error);
  RotaryTable table(RotaryConfig{}, 4, 2);
  std::vector<float> x(6, 1.0F);
  EXPECT_THROW(table.apply(Heads(x.data(), 1, 1, 3, 2), 1, false), Error) << "not allocated";
  table.allocate();
  EXPECT_NO_THROW(table.apply(Heads(x.data(), 1, 1, 3, 2), 1, false));
  EXPECT_THROW(table.apply(Heads(x.data(), 1, 1, 3, 2), 2, false), Error);
}

}  // namespace multi_head_attention_test
}  // namespace longspan
