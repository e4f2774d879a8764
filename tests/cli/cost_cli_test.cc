// longspan cost, as a program reads it: every cell against the formulas, written out once more
// here, on a worked example and on random shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "longspan/predict/operation.h"
#include "tests/cli/cost_cli.h"

namespace longspan::testing {
namespace cost_cli_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace cost_cli;  // NOLINT(google-build-using-namespace)

// ---- the formulas of the paper and of an efficient engine, in plain integers ----

struct Pair {
  Count maccs = 0;
  Count flops = 0;
  Pair& operator+=(const Pair& more) {
    maccs += more.maccs;
    flops += more.flops;
    return *this;
  }
  friend Pair operator+(Pair a, const Pair& b) { return a += b; }
  friend Pair operator*(Count times, Pair a) { return {times * a.maccs, times * a.flops}; }
};

struct Layer {
  Pair f, b, u;
  bool bp_updates = true;
};

enum View { kPrinted, kCorrected, kExecuted };
constexpr const char* kViews[] = {"printed", "corrected", "executed"};

Layer embedding(View view, const Dimensions& s, Count rows) {
  if (view == kExecuted) return {{0, rows * s.d}, {}, {0, rows * s.d}};
  const Pair product{rows * s.v * s.d, 2 * rows * s.v * s.d};
  return {product, {}, product, false};
}

Layer attention(View view, const Dimensions& s, Count q, Count k) {
  const Count d = s.d;
  const Count h = s.h;
  const Count weights = 2 * q * d * d + 2 * k * d * d;
  Layer layer;
  layer.u = {weights, 2 * weights};
  layer.f = {weights + 2 * q * k * d, 2 * weights + 4 * q * k * d + 6 * q * k * h};
  if (view == kExecuted) {
    layer.f.flops = 2 * layer.f.maccs + 5 * q * k * h + q * d;
    layer.b.maccs = weights + 4 * q * k * d;
    layer.b.flops = 2 * layer.b.maccs + 4 * q * k * h + q * d;
    return layer;
  }
  const Count slice = view == kPrinted ? q * k * q * h : q * k * k * h;
  layer.b.maccs = weights + 4 * q * k * d + slice;
  layer.b.flops = 2 * layer.b.maccs + q * k * h;
  if (view == kCorrected) layer.b.flops += k * k * q * h;
  return layer;
}

Layer ffn(View view, const Dimensions& s, Count rows) {
  const Count product = 2 * rows * s.d * s.f;
  Layer layer{{product, 2 * product + 9 * rows * s.f + rows * s.d},
              {product, 2 * product + 13 * rows * s.f},
              {product, 2 * product}};
  if (view == kExecuted) {
    layer.b.flops += rows * s.f;
    layer.u.flops += rows * s.f + rows * s.d;
  }
  return layer;
}

Layer add_norm(View view, const Dimensions& s, Count rows) {
  const Count d = s.d;
  if (view == kExecuted) {
    return {{0, rows * (8 * d + 5)}, {0, rows * (9 * d + 2)}, {0, 3 * rows * d}};
  }
  return {{0, 9 * rows * d},
          {rows * d * d, 11 * rows * d * d + 2 * rows * d},
          {rows * d, 3 * rows * d}};
}

Layer softmax(View view, const Dimensions& s, Count rows) {
  const Count product = rows * s.d * s.v;
  return {{product, 2 * product + 5 * rows * s.v},
          {product, 2 * product + (view == kExecuted ? rows : 0)},
          {product, 2 * product}};
}

Layer times(Count count, const Layer& a) {
  return {count * a.f, count * a.b, count * a.u, a.bp_updates};
}

std::map<std::string, Layer> layers_of(View view, const Dimensions& s) {
  std::map<std::string, Layer> all;
  const auto add_stack = [&](const std::string& prefix, const char* self, Count blocks, Count rows,
                             bool cross) {
    all[prefix + "embedding"] = embedding(view, s, rows);
    all[prefix + self] = times(blocks, attention(view, s, rows, rows));
    if (cross) all[prefix + "cross_mha"] = times(blocks, attention(view, s, rows, s.n));
    all[prefix + "add_norm"] = times((cross ? 3 : 2) * blocks, add_norm(view, s, rows));
    all[prefix + "ffn"] = times(blocks, ffn(view, s, rows));
  };
  const bool both = s.encoder_layers > 0 && s.decoder_layers > 0;
  if (both) {
    add_stack("encoder_", "mha", s.encoder_layers, s.n, false);
    add_stack("decoder_", "masked_mha", s.decoder_layers, s.m, true);
  } else if (s.encoder_layers > 0) {
    add_stack("", "mha", s.encoder_layers, s.n, false);
  } else {
    add_stack("", "masked_mha", s.decoder_layers, s.n, false);
  }
  all["softmax"] = softmax(view, s, both ? s.m : s.n);
  for (auto& [name, layer] : all) layer = times(s.batch, layer);
  return all;
}

Count parameters_of(const Dimensions& s) {
  const bool both = s.encoder_layers > 0 && s.decoder_layers > 0;
  const Count block = 4 * s.d * s.d + 2 * s.d * s.f + s.f + s.d + 2 * 2 * s.d;
  const Count cross = both ? 4 * s.d * s.d + 2 * s.d : 0;
  return (both ? 3 : 2) * s.v * s.d + s.encoder_layers * block + s.decoder_layers * (block + cross);
}

Pair projection_of(View view, const Dimensions& s) {
  if (s.encoder_layers == 0 || s.decoder_layers == 0) return {};
  const Count product = (view == kExecuted ? 1 : 2) * s.n * s.m * s.v;
  return s.batch * Pair{product, 2 * product + 6 * s.n * s.m};
}

// e·W_emb of the modulated pass, the dense update of the embedding, e, and a − a_err everywhere.
Pair overhead_of(View view, const Dimensions& s) {
  if (view != kExecuted) return {};
  const bool both = s.encoder_layers > 0 && s.decoder_layers > 0;
  const Count block = 7 * s.d + s.f;  // q, k, v, output; two norms; hidden and output of the FFN
  Pair sum;
  const auto add_stack = [&](Count blocks, Count rows) {
    sum += {2 * rows * s.v * s.d, 4 * rows * s.v * s.d};
    sum.flops += rows * s.d + blocks * rows * block;
  };
  if (both) {
    add_stack(s.encoder_layers, s.n);
    add_stack(s.decoder_layers, s.m);
    sum.flops += s.decoder_layers * (2 * s.m * s.d + 2 * s.n * s.d + s.m * s.d);
  } else {
    add_stack(s.encoder_layers + s.decoder_layers, s.n);
  }
  const Count out = both ? s.m : s.n;
  sum.flops += out + out * s.v;
  return s.batch * sum;
}

void expect_pair(const Json& json, const Pair& expected, const std::string& where) {
  EXPECT_EQ(json.at("maccs").get<Count>(), expected.maccs) << where;
  EXPECT_EQ(json.at("flops").get<Count>(), expected.flops) << where;
}

void expect_view(const Json& report, View view, const Dimensions& s) {
  const Json& json = report.at("views").at(kViews[view]);
  const std::string where = std::string(kViews[view]) + " ";
  const auto expected = layers_of(view, s);
  EXPECT_EQ(json.at("layers").size(), expected.size());
  Pair f, b, u, bp_u;
  for (const Json& layer : json.at("layers")) {
    const std::string name = layer.at("name");
    ASSERT_TRUE(expected.contains(name)) << name;
    const Layer& e = expected.at(name);
    expect_pair(layer.at("forward"), e.f, where + name + " forward");
    expect_pair(layer.at("backward"), e.b, where + name + " backward");
    expect_pair(layer.at("update"), e.u, where + name + " update");
    f += e.f;
    b += e.b;
    u += e.u;
    if (e.bp_updates) bp_u += e.u;
  }
  const Pair p = projection_of(view, s);
  const Pair o = overhead_of(view, s);
  const Json& phases = json.at("phases");
  expect_pair(phases.at("forward"), f, where + "F");
  expect_pair(phases.at("backward"), b, where + "B");
  expect_pair(phases.at("update"), u, where + "U");
  expect_pair(phases.at("error_projection"), p, where + "P");
  expect_pair(phases.at("rule_overhead"), o, where + "overhead");
  expect_pair(json.at("rules").at("bp"), f + b + bp_u, where + "bp");
  expect_pair(json.at("rules").at("pepita"), 2 * f + u + p + o, where + "pepita");
  expect_pair(json.at("rules").at("mempepita"), 3 * f + u + p + o, where + "mempepita");
}

TEST(Cost, WorkedExampleCellByCell) {
  const Json report = cost(arguments_of(kBlock));
  for (const View view : {kPrinted, kCorrected, kExecuted}) expect_view(report, view, kBlock);
  // The same as numbers, so that a slip in the formulas above cannot hide.
  const Json& printed = report["views"]["printed"];
  EXPECT_EQ(printed["layers"][1]["backward"]["flops"], 29425664);
  EXPECT_EQ(printed["layers"][2]["backward"]["flops"], 11567104);
  EXPECT_EQ(printed["rules"]["bp"]["maccs"], 67387392);
  EXPECT_EQ(printed["rules"]["bp"]["flops"], 146236416);
  EXPECT_EQ(printed["rules"]["pepita"]["flops"], 147458048);
  EXPECT_EQ(printed["rules"]["mempepita"]["flops"], 198487040);
  const Json& corrected = report["views"]["corrected"];
  EXPECT_EQ(corrected["layers"][1]["backward"]["flops"], 37814272);
  EXPECT_EQ(corrected["rules"]["bp"]["flops"], 154625024);
  const Json& executed = report["views"]["executed"];
  EXPECT_EQ(executed["rules"]["bp"]["maccs"], 49741824);
  EXPECT_EQ(executed["rules"]["bp"]["flops"], 101878656);
  EXPECT_EQ(executed["rules"]["pepita"]["maccs"], 64028672);
  EXPECT_EQ(executed["rules"]["mempepita"]["maccs"], 80609280);
  EXPECT_EQ(report["parameters"]["total"], 177728);
}

TEST(Cost, RandomShapes) {
  std::mt19937_64 random(5);
  const auto pick = [&](Count low, Count high) {
    return std::uniform_int_distribution<Count>(low, high)(random);
  };
  for (int round = 0; round < 24; ++round) {
    Dimensions s{};
    s.encoder_layers = round % 3 == 1 ? 0 : pick(1, 5);
    s.decoder_layers = round % 3 == 0 ? 0 : pick(1, 5);
    s.h = pick(1, 6);
    s.d = s.h * pick(1, 40);
    s.f = pick(1, 300);
    s.v = pick(1, 5000);
    s.n = pick(1, 200);
    s.m = pick(1, 200);
    s.batch = pick(1, 5);
    SCOPED_TRACE(::testing::PrintToString(arguments_of(s)));
    const Json report = cost(arguments_of(s));
    for (const View view : {kPrinted, kCorrected, kExecuted}) expect_view(report, view, s);
    EXPECT_EQ(report["parameters"]["total"].get<Count>(), parameters_of(s));
    Count by_layer = 0;
    for (const Json& layer : report["parameters"]["by_layer"]) {
      by_layer += layer["parameters"].get<Count>();
    }
    EXPECT_EQ(by_layer, parameters_of(s));
  }
}

// Of rules that the paper does not have the executed view alone, with the matrices that carry the
// error back.
TEST(CostCli, WalksFeedbackAlignment) {
  const Arguments model = {"--decoder-layers", "3",  "--d-model", "32", "--heads", "4",
                           "--vocab",          "50", "--length",  "16", "--batch", "2"};
  const auto of = [&](const char* rule) {
    Arguments a = model;
    a.insert(a.end(), {"--rule", rule});
    return cost(a);
  };
  const Json bp = of("bp");
  const Json fa = of("fa");
  const Json dfa = of("dfa");
  EXPECT_EQ(fa["views"].size(), 1U);
  const auto flops = [](const Json& report, const char* rule, const char* phase) {
    return report["views"]["executed"]["rules"][rule]["phases"][phase]["flops"].get<Count>();
  };
  for (const char* phase : {"forward", "backward", "update", "rule_overhead", "optimizer"}) {
    EXPECT_EQ(flops(fa, "fa", phase), flops(bp, "bp", phase)) << phase;
  }
  EXPECT_EQ(flops(dfa, "dfa", "forward"), flops(bp, "bp", "forward"));
  EXPECT_EQ(flops(dfa, "dfa", "rule_overhead"), 2 * 3 * (2 * 16) * 50 * 32);
  EXPECT_EQ(dfa["memory"]["feedback"], 4 * 3 * 50 * 32);
  EXPECT_EQ(dfa["memory"], dfa["memory_by_rule"]["dfa"]);
  // Projections, outputs of branches, hidden layers and the softmax layer.
  EXPECT_EQ(fa["memory"]["feedback"], 4 * (3 * (4 * 32 * 32 + 2 * 32 * 128) + 50 * 32));
  EXPECT_EQ(fa["memory"]["peak"], bp["memory"]["peak"]);
  Arguments table = model;
  table.insert(table.begin(), "cost");
  table.insert(table.end(), {"--rule", "dfa"});
  const Outcome text = longspan(table);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("\ndfa "), HasSubstr("feedback"), HasSubstr("executed")));
  EXPECT_THAT(text.out, ::testing::Not(HasSubstr("printed")));
}

// Half the length behind each pool, so fewer scores and products than one stage.
TEST(CostCli, StagesShortenAnEncoder) {
  const Arguments model = {"--encoder-layers", "4",  "--d-model", "32", "--heads", "4",
                           "--vocab",          "50", "--length",  "32"};
  const auto with = [&](const Arguments& more) {
    Arguments a = model;
    a.insert(a.end(), more.begin(), more.end());
    return a;
  };
  const Json whole = cost(with({"--view", "executed", "--rule", "bp"}));
  const Json staged = cost(with({"--stages", "1|1|1", "--stage-pool", "max", "--pooled-keys"}));
  EXPECT_EQ(staged["config"]["stages"], "1|1|1");
  EXPECT_EQ(staged["config"]["stage_pool"], "max");
  EXPECT_EQ(staged["config"]["stage_cls"], true);
  EXPECT_EQ(staged["config"]["unpooled_keys"], false);
  EXPECT_LT(staged["views"]["executed"]["rules"]["bp"]["maccs"],
            whole["views"]["executed"]["rules"]["bp"]["maccs"]);
  const Json apart = cost(with({"--stages", "1|1", "--no-stage-cls", "--no-stage-truncate"}));
  EXPECT_EQ(apart["config"]["stage_cls"], false);
  EXPECT_EQ(apart["config"]["stage_truncate"], false);
  const std::vector<std::pair<Arguments, std::string>> bad = {
      {{"--stages", "4|4"}, "the stages 4|4 leave no layer behind them in a model of 4 layers"},
      {{"--stages", "2"}, "one stage of 2 layers; need two or more"},
      {{"--stages", "1|1", "--wiring", "pre"}, "need an encoder with post wiring"},
      {{"--stages", "1|1", "--stage-pool", "sum"}, "stage_pool"},
      {{"--stage-pool", "max"}, "need --stages"},
  };
  for (const auto& [more, text] : bad) {
    Arguments a = with(more);
    a.insert(a.begin(), "cost");
    expect_wrong_input(longspan(a), text);
  }
}

// The embedding's update is in the phases of rules that have one.
TEST(Cost, PhasesFollowTheRule) {
  const auto update = [](const char* rule) {
    Arguments a = arguments_of(kBlock);
    a.insert(a.end(), {"--rule", rule, "--view", "printed"});
    const Json view = cost(a)["views"]["printed"];
    EXPECT_EQ(view["rules"].size(), 1U);
    return view["phases"]["update"]["maccs"].get<Count>();
  };
  EXPECT_EQ(update("bp"), 14499840);
  EXPECT_EQ(update("pepita"), 22691840);
}

TEST(Cost, PublishedNumbers) {
  const auto forward = [](const Json& report) {
    return report["views"]["executed"]["phases"]["forward"]["maccs"].get<Count>();
  };
  const Json bert = cost({"--model", "bert-base", "--length", "128"});
  EXPECT_EQ(bert["parameters"]["total"], 109482240);
  EXPECT_EQ(forward(bert), 11174215680);
  EXPECT_EQ(cost({"--model", "distilbert"})["parameters"]["total"], 66362880);
  const Json llama = cost({"--model", "llama-7b", "--length", "128"});
  EXPECT_EQ(forward(llama), 850000871424);
  const Json llama2 = cost({"--model", "llama-2-7b", "--length", "4096", "--dtype", "fp16"});
  EXPECT_EQ(llama2["memory"]["cache"].get<Count>(), Count{2} << 30);
}

// 300 G tokens of GPT-3 need more than 64 bits, and keep every digit.
TEST(Cost, LargeRunsAreExact) {
  const Outcome run =
      longspan({"cost", "--model", "gpt3-175b", "--tokens", "300e9", "--json", "--rule", "bp"});
  ASSERT_EQ(run.status, 0) << run.err;
  const Json report = Json::parse(run.out);
  EXPECT_EQ(report["parameters"]["total"], 174604259328);
  EXPECT_EQ(report["training"]["tokens"], 300000000000);
  // 2048 tokens a step: 146484375 steps, multiplied here digit by digit.
  const auto step = report["views"]["executed"]["rules"]["bp"]["flops"].get<unsigned long long>();
  std::string digits;
  unsigned long long carry = 0;
  std::string reversed = std::to_string(step);
  std::reverse(reversed.begin(), reversed.end());
  for (std::size_t i = 0; i < reversed.size() || carry > 0; ++i) {
    const unsigned long long digit = i < reversed.size() ? reversed[i] - '0' : 0;
    const unsigned long long sum = digit * 146484375ULL + carry;
    digits += static_cast<char>('0' + sum % 10);
    carry = sum / 10;
  }
  std::reverse(digits.begin(), digits.end());
  EXPECT_EQ(digits.size(), 24U) << "past 64 bits";
  EXPECT_THAT(run.out, HasSubstr("\"flops\": " + digits));
  EXPECT_THAT(longspan({"cost", "--model", "gpt3-175b", "--tokens", "300e9"}).out,
              AllOf(HasSubstr("174,604,259,328 parameters"), HasSubstr("3739 PF-days")));
}

}  // namespace cost_cli_test
}  // namespace longspan::testing
